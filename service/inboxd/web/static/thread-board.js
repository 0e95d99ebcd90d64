// <thread-board>: threads by status. A card that changed is fetched alone and moves to its column.
import { Batch, anew, flash, part, swap } from "./rows.js";

const CLOSED = ["done", "failed", "cancelled"];
const CLOSED_MAX = 12;

export class ThreadBoard extends HTMLElement {
  connectedCallback() {
    this.batch = new Batch((ids) => this.fetch(ids));
    this.closedMax = Math.max(CLOSED_MAX, this.querySelector(".closed-list").children.length);
    document.addEventListener("inbox-event", ({ detail }) => this.hear(detail));
    anew(this);
  }

  hear(event) {
    // Among the older ones nothing new appears.
    if (event.type.startsWith("thread_") && (!("still" in this.dataset) || this.card(event.thread_id))) this.batch.add(event.thread_id);
  }

  async fetch(ids) {
    const found = await part(`${this.dataset.src}?id=${ids.map(encodeURIComponent).join(",")}`);
    const gone = new Set(ids);
    for (const fresh of found.querySelectorAll("li[data-id]")) {
      gone.delete(fresh.dataset.id);
      this.place(fresh);
    }
    gone.forEach((id) => this.card(id)?.remove());
    this.count();
  }

  card(id) {
    return this.querySelector(`li[data-id="${CSS.escape(id)}"]`);
  }

  place(fresh) {
    const old = this.card(fresh.dataset.id);
    const status = CLOSED.includes(fresh.dataset.status) ? "closed" : fresh.dataset.status;
    const list = this.querySelector(`ul[data-status="${status}"]`);
    if (old?.parentElement === list) return swap(old, fresh);
    old?.remove();
    if (!list) return;
    list.prepend(fresh);
    flash(fresh);
  }

  count() {
    for (const column of this.querySelectorAll(".column")) {
      const count = column.querySelector("[data-column-count]");
      count.textContent = column.querySelectorAll("li[data-id]").length + ("more" in count.dataset ? "+" : "");
    }
    const closed = this.querySelector(".closed-list");
    while (closed.children.length > this.closedMax) closed.lastElementChild.remove();
    const any = this.querySelector("li[data-id]") !== null;
    const board = this.querySelector(".board");
    board.hidden = !any || !board.children.length;
    this.querySelector(".none").hidden = any;
    this.querySelector(".closed").hidden = !closed.children.length;
  }
}

customElements.define("thread-board", ThreadBoard);
