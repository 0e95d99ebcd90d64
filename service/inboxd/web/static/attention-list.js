// <attention-list>: what needs a person. Read anew as a whole when something happened, and changed only where it differs.
import { Soon, part, swap } from "./rows.js";

const WAIT_MS = 400;

export class AttentionList extends HTMLElement {
  connectedCallback() {
    const soon = new Soon(() => this.read(), WAIT_MS);
    document.addEventListener("inbox-event", () => soon.ask());
    document.addEventListener("inbox-reset", () => soon.ask());
  }

  async read() {
    this.show([...(await part(this.dataset.src)).querySelectorAll("li.need")]);
  }

  show(found) {
    const list = this.querySelector("ul");
    const old = new Map([...list.children].map((row) => [row.dataset.id, row]));
    const rows = found.map((fresh) => {
      const before = old.get(fresh.dataset.id);
      old.delete(fresh.dataset.id);
      return before && words(before) === words(fresh) ? before : before ? swap(before, fresh) : fresh;
    });
    old.forEach((row) => row.remove());
    rows.forEach((row, i) => list.children[i] === row || list.insertBefore(row, list.children[i] ?? null));
    this.querySelector(".none").hidden = rows.length > 0;
  }
}

// What a row says, but for what only time changes.
function words(row) {
  const copy = row.cloneNode(true);
  copy.querySelectorAll("time").forEach((one) => { one.textContent = one.dateTime; one.removeAttribute("title"); one.removeAttribute("data-told"); });
  copy.querySelectorAll("[name=message_id]").forEach((one) => one.remove());
  copy.querySelectorAll("details").forEach((one) => one.removeAttribute("open"));
  return copy.textContent.replace(/\s+/g, " ");
}

customElements.define("attention-list", AttentionList);
