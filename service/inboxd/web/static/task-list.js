// <task-list>: all tasks, most urgent first. A row that changes is fetched alone and moved to its place.
import { Batch, anew, flash, part, swap, tasksOf } from "./rows.js";

const HEARD_EVERY_MS = 15_000; // being heard makes no event, so rows in sight are asked for now and then

export class TaskList extends HTMLElement {
  connectedCallback() {
    if ("empty" in this.dataset) return this.begin();
    this.batch = new Batch((names) => this.fetch(names));
    this.inSight = new Set();
    this.sight = new IntersectionObserver((seen) => seen.forEach(({ target, isIntersecting }) => this.inSight[isIntersecting ? "add" : "delete"](target.dataset.id)));
    this.rows().forEach((row) => this.sight.observe(row));
    document.addEventListener("inbox-event", ({ detail }) => this.hear(detail));
    anew(this, () => { this.rows().forEach((row) => this.sight.observe(row)); this.filter(); });
    setInterval(() => document.hidden || this.batch.add(...this.inSight), HEARD_EVERY_MS);
    this.addEventListener("pointerleave", () => this.settle());
    this.addEventListener("focusout", () => setTimeout(() => this.settle()));
    this.box = document.getElementById("filter");
    if (!this.box) return;
    this.box.value = new URLSearchParams(location.search).get("filter") ?? "";
    this.box.addEventListener("input", () => this.typed());
    this.filter();
  }

  rows() {
    return [...this.querySelectorAll("li[data-id]")];
  }

  // A page without tasks becomes one with tasks.
  begin() {
    document.addEventListener("inbox-event", ({ detail }) => detail.type === "task_declared" && detail.task !== "user" && location.reload());
    document.addEventListener("inbox-reset", () => location.reload());
  }

  hear(event) {
    this.batch.add(...tasksOf(event));
  }

  async fetch(names) {
    const rows = new Map([...(await part(`${this.dataset.src}?id=${names.join(",")}`)).querySelectorAll("li[data-id]")].map((row) => [row.dataset.id, row]));
    const list = this.querySelector("ul");
    const old = new Map(this.rows().map((row) => [row.dataset.id, row]));
    for (const name of names) {
      const before = old.get(name), after = rows.get(name);
      if (before && !after) before.remove();
      if (!after) continue;
      const changed = !before || before.querySelector(".task-badges").textContent.trim() !== after.querySelector(".task-badges").textContent.trim();
      if (before) swap(before, after);
      else list.append(after);
      this.sight.observe(after);
      if (changed) flash(after);
    }
    this.settle();
    this.filter();
  }

  // Rows move only while nobody points at them: what one is about to click must not slip away.
  settle() {
    if (matchMedia("(hover: hover)").matches && this.matches(":hover")) return;
    const rows = this.rows();
    const sorted = [...rows].sort((one, other) => (one.dataset.order < other.dataset.order ? -1 : 1));
    if (rows.every((row, i) => row === sorted[i])) return;
    const held = this.contains(document.activeElement) ? document.activeElement : null;
    const list = this.querySelector("ul");
    // Only those out of place are moved, so that a change of one row costs one move.
    let here = list.firstElementChild;
    for (const row of sorted) {
      if (row === here) here = here.nextElementSibling;
      else list.insertBefore(row, here);
    }
    held?.focus({ preventScroll: true });
  }

  typed() {
    const url = new URL(location.href);
    if (this.box.value.trim()) url.searchParams.set("filter", this.box.value.trim());
    else url.searchParams.delete("filter");
    history.replaceState(null, "", url);
    this.filter();
  }

  filter() {
    const words = (this.box?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const states = {};
    for (const row of this.rows()) {
      const fits = words.every((word) => row.dataset.find.includes(word));
      if (row.hidden === fits) row.hidden = !fits;
      if (!fits) continue;
      shown += 1;
      const state = row.dataset.state;
      states[state] = (states[state] ?? 0) + 1;
    }
    const none = this.querySelector(".none");
    if (none) none.hidden = shown > 0;
    const summary = document.getElementById("task-summary");
    if (summary) summary.textContent = ["active", "waiting", "idle", "queued", "terminated"].filter((state) => states[state]).map((state) => `${states[state]} ${state}`).join(" · ");
  }
}

customElements.define("task-list", TaskList);
