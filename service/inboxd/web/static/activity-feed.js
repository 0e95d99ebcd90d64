// <activity-feed>: everything that happens, newest first, without a hole. It can be held still; then it counts what came meanwhile.
import { Soon, anew, flash, part } from "./rows.js";

const WAIT_MS = 200, ROWS_MAX = 300;

export class ActivityFeed extends HTMLElement {
  connectedCallback() {
    this.soon = new Soon(() => this.read(), WAIT_MS);
    this.paused = false;
    this.begin();
    document.addEventListener("inbox-event", ({ detail }) => this.hear(detail.id));
    anew(this, () => { this.begin(); this.choose(); });
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

  begin() {
    this.list = this.querySelector("ol");
    this.newest = this.heard = Number(this.list.firstElementChild?.dataset.id ?? 0);
  }

  hear(id) {
    if (id <= this.heard) return;
    this.heard = id;
    if (this.paused) this.tell();
    else this.soon.ask();
  }

  tell() {
    const box = this.querySelector(".held-back");
    const waiting = this.heard - this.newest; // the log numbers its events without holes
    box.hidden = !this.paused || !waiting;
    box.firstElementChild.textContent = `${waiting} new ${waiting === 1 ? "event" : "events"}`;
  }

  hold(still) {
    this.paused = still;
    this.pause.setAttribute("aria-pressed", String(still));
    this.pause.querySelector("span").textContent = still ? "Go on" : "Pause";
    this.pause.querySelector("use").setAttribute("href", this.pause.querySelector("use").getAttribute("href").replace(/#.*/, still ? "#play" : "#pause"));
    this.tell();
    if (!still && this.heard > this.newest) this.soon.ask();
  }

  async read() {
    if (this.paused) return;
    const heard = this.heard;
    const rows = await this.behind(this.newest);
    this.newest = Math.max(heard, Number(rows[0]?.dataset.id ?? 0));
    this.heard = Math.max(this.heard, this.newest);
    this.list.prepend(...rows);
    rows.slice(0, 20).forEach(flash);
    while (this.list.children.length > ROWS_MAX) this.list.lastElementChild.remove();
    this.querySelector(".none").hidden = this.list.children.length > 0;
    this.choose();
  }

  // What the log has behind an event, newest first, as much as may stand here: in answers of the broker's size.
  async behind(newest) {
    const rows = [];
    let before = "";
    while (rows.length < ROWS_MAX) {
      const some = [...(await part(`${this.dataset.src}?after=${newest}${before}`)).querySelectorAll("li[data-id]")];
      rows.push(...some);
      const oldest = Number(some.at(-1)?.dataset.id ?? 0);
      if (oldest <= newest + 1) break;
      before = `&before=${oldest}`;
    }
    return rows;
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
