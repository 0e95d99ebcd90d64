// Stream: the broker's events in order and without a gap, over however many connections that takes.
//
// Not EventSource: it gives up for good on a 503, cannot tell a session's end from a broker's, and does not notice a
// connection that is dead but not closed. This asks again behind the last event it got, with growing pauses.

const PAUSE_MS = 250, PAUSE_MS_MAX = 5_000;
const SILENT_MS_MAX = 45_000; // the broker says something, if only a comment, more often than this

export class Stream {
  // `tell` gets {kind: "event", id, type, event}, {kind: "state", state: "live" | "lost" | "stopping" | "signed-out"} or {kind: "reset"}.
  constructor(url, after, tell) {
    this.url = url;
    this.last = after;
    this.tell = tell;
    this.state = "";
    this.pause = PAUSE_MS;
    this.wake = () => {};
    this.closed = false;
    this.run();
  }

  close() {
    this.closed = true;
    this.abort?.abort();
    this.wake();
  }

  // Whoever knows that the network is back need not wait for the pause to end.
  retry() {
    this.pause = PAUSE_MS;
    this.wake();
  }

  say(state) {
    if (this.state === state) return;
    this.state = state;
    this.tell({ kind: "state", state });
  }

  async run() {
    while (!this.closed) {
      this.abort = new AbortController();
      try {
        const response = await fetch(`${this.url}?after=${this.last}`, {
          headers: { accept: "text/event-stream" },
          cache: "no-store",
          signal: this.abort.signal,
        });
        if (response.status === 401 || response.status === 403) return this.say("signed-out");
        if (!response.ok) throw new Error(String(response.status));
        this.pause = PAUSE_MS;
        this.say("live");
        await this.read(response.body.getReader());
      } catch {
        // Said below: whatever ended it, the next try tells whether it is over.
      }
      clearTimeout(this.watch);
      if (this.closed) return;
      if (this.state !== "stopping") this.say("lost");
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, this.pause * (0.75 + Math.random() / 2));
      });
      if (this.state === "stopping" && this.pause > 2_000) this.say("lost");
      this.pause = Math.min(this.pause * 2, PAUSE_MS_MAX);
    }
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      clearTimeout(this.watch);
      this.watch = setTimeout(() => this.abort.abort(), SILENT_MS_MAX);
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop();
      blocks.forEach((block) => this.take(block));
    }
  }

  take(block) {
    let id = "", type = "message";
    const data = [];
    for (const line of block.split(/\r?\n/)) {
      const [, field, value] = /^([a-z]*):? ?(.*)$/.exec(line) ?? [];
      if (field === "id") id = value;
      else if (field === "event") type = value;
      else if (field === "data") data.push(value);
    }
    if (!data.length) return;
    const event = JSON.parse(data.join("\n"));
    if (id) this.last = Number(id);
    if (type === "ready" || type === "ping") return;
    if (type === "reset") this.tell({ kind: "reset", id: this.last });
    else if (type !== "closing") this.tell({ kind: "event", id: this.last, type, event });
    else if (event.reason === "stopping") this.say("stopping");
  }
}
