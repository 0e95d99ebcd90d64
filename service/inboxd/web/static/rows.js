// Rows: fetching parts of a page and putting them in place, without taking anything out of anybody's hands.

const AGAIN_MS = 1_000, AGAIN_MS_MAX = 8_000, ANSWER_MS_MAX = 20_000;

export class Soon {
  // Does its work a moment after it was asked to, once for all who asked, and tries again until it is done: a page that was told
  // of something shows it, even if the broker went away in between.
  constructor(work, waitMs) {
    this.work = work;
    this.waitMs = waitMs;
    this.failures = 0;
    document.addEventListener("inbox-live", () => this.failures && this.timer && this.run());
  }

  ask() {
    this.asked = true;
    if (!this.running) this.timer ??= setTimeout(() => this.run(), this.waitMs);
  }

  async run() {
    clearTimeout(this.timer);
    this.timer = null;
    this.running = true;
    this.asked = false;
    try {
      await this.work();
      this.failures = 0;
    } catch (error) {
      this.failures = error instanceof Refused ? 0 : this.failures + 1;
    }
    this.running = false;
    if (this.failures) this.timer = setTimeout(() => this.run(), Math.min(AGAIN_MS * 2 ** (this.failures - 1), AGAIN_MS_MAX));
    else if (this.asked) this.ask();
  }
}

export class Batch {
  // Gathers ids for a moment and hands them over together; one handing-over at a time.
  constructor(flush, waitMs = 120, most = 60) {
    this.flush = flush;
    this.most = most;
    this.ids = new Set();
    this.soon = new Soon(() => this.run(), waitMs);
  }

  add(...ids) {
    ids.forEach((id) => id && this.ids.add(id));
    if (this.ids.size) this.soon.ask();
  }

  async run() {
    const some = [...this.ids].slice(0, this.most);
    some.forEach((id) => this.ids.delete(id));
    try {
      await this.flush(some);
    } catch (error) {
      if (!(error instanceof Refused)) some.forEach((id) => this.ids.add(id));
      throw error;
    } finally {
      if (this.ids.size) this.soon.ask();
    }
  }
}

// The broker answered, and asking again would change nothing: what was asked for is gone, or not this session's to see.
export class Refused extends Error {}

export async function answer(url, accept) {
  const response = await fetch(url, { headers: { accept }, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
  if (response.ok) return response;
  throw response.status < 500 ? new Refused(String(response.status)) : new Error(String(response.status));
}

// A part of the page, as elements. Our own server rendered it, with everything of others' escaped.
export async function part(url) {
  const template = document.createElement("template");
  template.innerHTML = await (await answer(url, "text/html")).text();
  return template.content;
}

function busy(row) {
  return [...row.querySelectorAll("textarea")].some((field) => field.value) || row.querySelector("details[data-keep][open]") !== null;
}

// Put a fresh row in the place of an old one. Words being typed, what was unfolded and the focus stay.
export function swap(old, fresh) {
  if (busy(old)) {
    const parts = [...fresh.querySelectorAll("[data-live]")];
    old.querySelectorAll("[data-live]").forEach((one, i) => parts[i] && one.replaceWith(parts[i]));
    old.className = fresh.className;
    Object.assign(old.dataset, fresh.dataset);
    return old;
  }
  const focusable = "a, button, input, select, textarea, summary";
  const held = old.contains(document.activeElement) ? [...old.querySelectorAll(focusable)].indexOf(document.activeElement) : -1;
  old.querySelectorAll("details").forEach((one, i) => {
    const same = fresh.querySelectorAll("details")[i];
    if (same && one.open) same.open = true;
  });
  const whole = old.querySelector(".msg-body[data-whole]");
  if (whole) fresh.querySelector(".msg-body")?.replaceWith(whole);
  old.replaceWith(fresh);
  if (held >= 0) fresh.querySelectorAll(focusable)[held]?.focus({ preventScroll: true });
  return fresh;
}

export function flash(row) {
  row.classList.add("fresh");
  row.addEventListener("animationend", () => row.classList.remove("fresh"), { once: true });
}

// Read an element of this page anew, whole, after a gap that nothing else can fill. Words being typed in it come back by themselves:
// every box to write in keeps its draft.
export function anew(element, after = () => {}) {
  const soon = new Soon(async () => {
    const response = await answer(location.href, "text/html");
    if (response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const same = page.querySelector(element.localName);
    if (!same) return;
    const held = element.contains(document.activeElement) ? document.activeElement.id : "";
    element.replaceChildren(...same.childNodes);
    if (held) document.getElementById(held)?.focus({ preventScroll: true });
    after();
  }, 0);
  document.addEventListener("inbox-reset", () => soon.ask());
}

// What a task's event is about: whose row changed.
export function tasksOf(event) {
  const names = [event.task, event.peer, event.assigned_to, event.agent];
  if (event.sender?.startsWith("task:")) names.push(event.sender.slice(5));
  return names.filter(Boolean);
}
