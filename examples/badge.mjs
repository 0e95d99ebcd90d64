// A badge for one task: `show` is called with how much mail waits for it, as that changes.
//
//   INBOX_URL=http://127.0.0.1:8420 INBOX_TOKEN=ibx_… node badge.mjs backend
//   in a page: import { badge } from "./badge.mjs"; badge({ url: "", token, task: "backend", show: (n) => (mark.textContent = n || "") });
//
// An EventSource cannot send a token, so this reads the stream with fetch and comes back with the last id as an EventSource would.
export async function badge({ url, token, task, show }) {
  const ask = (path, more) => fetch(url + path, { headers: { Authorization: `Bearer ${token}`, ...more } });
  for (let last; ; await new Promise((again) => setTimeout(again, 1000))) {
    try {
      const answer = await ask(`/v1/events?task=${task}`, last === undefined ? {} : { "Last-Event-ID": `${last}` });
      if (answer.status >= 400 && answer.status < 500) return show((await answer.json()).error.message);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", part; !(part = await reader.read()).done; ) {
        const lines = (rest + part.value).split("\n");
        rest = lines.pop();
        for (const line of lines.filter((one) => one.startsWith("data: "))) {
          const event = JSON.parse(line.slice(6));
          if (event.type === "ready" || event.type === "reset")
            show((await (await ask(`/v1/tasks/${task}/pending`)).json()).pending); // once for what was before
          else if (event.task === task) show(event.pending);
          last = event.id;
        }
      }
    } catch {} // the broker is away; `last` is where to go on
  }
}

const { env, argv } = globalThis.process ?? {};
if (argv?.[2]) badge({ url: env.INBOX_URL, token: env.INBOX_TOKEN, task: argv[2], show: (n) => console.log(`${argv[2]}: ${n}`) });
