// <activity-feed>: everything that happens, newest first. It can be held still; then it counts what came meanwhile.
import { again, flash, part } from "./rows.js";

const WAIT_MS = 200, ROWS_MAX = 300;

export class ActivityFeed extends HTMLElement {
  connectedCallback() {
    this.list = this.querySelector("ol");
    this.newest = Number(this.list.firstElementChild?.dataset.id ?? 0);
    this.heard = this.newest;
    this.paused = false;
    this.waiting = 0;
    document.addEventListener("inbox-event", ({ detail }) => this.hear(detail.id));
    document.addEventListener("inbox-reset", async () => {
      await again(this);
      this.list = this.querySelector("ol");
      this.newest = this.heard = Number(this.list.firstElementChild?.dataset.id ?? 0);
      this.choose();
    });
    this.pause = document.getElementById("pause");
    this.pause.hidden = false;
    this.pause.addEventListener("click", () => this.hold(!this.paused));
    this.addEventListener("click", (event) => event.target.closest(".held-back button") && this.hold(false));
    this.kind = document.getElementById("feed-kind");
    this.kind.value = new URLSearchParams(location.search).get("show") ?? "";
    this.kind.addEventListener("change", () => {
      const url = new URL(location.href);
      if (this.kind.value) url.searchParams.set("show", this.kind.value);
      else url.searchParams.delete("show");
      history.replaceState(null, "", url);
      this.choose();
    });
    this.choose();
  }

  hear(id) {
    if (id <= this.heard) return;
    this.heard = id;
    this.waiting += 1;
    if (this.paused) this.tell();
    else this.timer ??= setTimeout(() => this.read(), WAIT_MS);
  }

  tell() {
    const box = this.querySelector(".held-back");
    box.hidden = !this.paused || !this.waiting;
    box.firstElementChild.textContent = `${this.waiting} new ${this.waiting === 1 ? "event" : "events"}`;
  }

  hold(still) {
    this.paused = still;
    this.pause.setAttribute("aria-pressed", String(still));
    this.pause.querySelector("span").textContent = still ? "Go on" : "Pause";
    this.pause.querySelector("use").setAttribute("href", this.pause.querySelector("use").getAttribute("href").replace(/#.*/, still ? "#play" : "#pause"));
    this.tell();
    if (!still && this.waiting) this.read();
  }

  async read() {
    const waiting = this.waiting;
    this.waiting = 0;
    try {
      const found = await part(`${this.dataset.src}?after=${this.newest}`);
      this.timer = null;
      const rows = [...found.querySelectorAll("li[data-id]")].filter((row) => Number(row.dataset.id) > this.newest);
      if (rows.length) this.newest = Number(rows[0].dataset.id);
      this.list.prepend(...rows);
      rows.slice(0, 20).forEach(flash);
      while (this.list.children.length > ROWS_MAX) this.list.lastElementChild.remove();
      this.querySelector(".none").hidden = this.list.children.length > 0;
      this.choose();
    } catch {
      this.timer = null;
      this.waiting += waiting;
    }
    this.tell();
    if (this.waiting && !this.paused) this.timer ??= setTimeout(() => this.read(), WAIT_MS);
  }

  choose() {
    const starts = this.kind.value.split(",").filter(Boolean);
    for (const row of this.list.children) {
      const fits = !starts.length || starts.some((start) => row.dataset.type.startsWith(start));
      if (row.hidden === fits) row.hidden = !fits;
    }
  }
}

customElements.define("activity-feed", ActivityFeed);
