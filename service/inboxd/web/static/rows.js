// Rows: fetching parts of a page and putting them in place, without taking anything out of anybody's hands.

export class Batch {
  // Gathers ids for a moment and hands them over together; one handing-over at a time.
  constructor(flush, waitMs = 120, most = 60) {
    this.flush = flush;
    this.waitMs = waitMs;
    this.most = most;
    this.ids = new Set();
    this.running = false;
  }

  add(...ids) {
    ids.forEach((id) => id && this.ids.add(id));
    if (this.running || !this.ids.size) return;
    this.running = true;
    setTimeout(() => this.run(), this.waitMs);
  }

  async run() {
    const some = [...this.ids].slice(0, this.most);
    some.forEach((id) => this.ids.delete(id));
    try {
      await this.flush(some);
    } catch {
      // The stream says that the broker is away, and the lists are read anew when it is back.
    }
    this.running = false;
    if (this.ids.size) this.add(...this.ids);
  }
}

// A part of the page, as elements. Our own server rendered it, with everything of others' escaped.
export async function part(url) {
  const response = await fetch(url, { headers: { accept: "text/html" } });
  if (!response.ok) throw new Error(String(response.status));
  const template = document.createElement("template");
  template.innerHTML = await response.text();
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

// Read an element of this page anew, whole: after a gap that nothing else can fill.
export async function again(element) {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok || response.redirected) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const same = page.querySelector(element.localName);
  if (same && !busy(element)) element.replaceChildren(...same.childNodes);
}

// What a task's event is about: whose row changed.
export function tasksOf(event) {
  const names = [event.task, event.peer, event.assigned_to, event.agent];
  if (event.sender?.startsWith("task:")) names.push(event.sender.slice(5));
  return names.filter(Boolean);
}
