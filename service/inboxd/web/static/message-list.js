// <message-list>: messages of a task, a thread or a search, and <person-inbox>, the person's own. New ones come by themselves,
// changed ones are fetched alone, older ones when one gets there. Never more than a few hundred stand in the page.
import { Batch, anew, flash, part, swap } from "./rows.js";

const OLDER_BY_ITSELF = 150; // then the link leads to a page of its own
const ROWS_MAX = 300;

export class MessageList extends HTMLElement {
  connectedCallback() {
    this.batch = new Batch((ids) => this.fetch(ids));
    this.sight = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.older(), { rootMargin: "600px" });
    this.watch();
    this.addEventListener("click", (event) => this.clicked(event));
    document.addEventListener("inbox-event", ({ detail }) => this.hear(detail));
    document.addEventListener("inbox-touch", ({ detail }) => this.hear(detail));
    anew(this, () => this.watch());
  }

  get list() {
    return this.querySelector("ol");
  }

  row(id) {
    return this.querySelector(`li[data-id="${CSS.escape(id)}"]`);
  }

  concerns(event) {
    const { task, thread, only } = this.dataset;
    if (only) return event.message_id === only;
    if (task) return event.task === task || event.sender === `task:${task}` || (task === "user" && event.sender === "user");
    return thread ? event.thread_id === thread : false;
  }

  hear(event) {
    if (!event.message_id) return;
    if (this.row(event.message_id) || (this.concerns(event) && !("still" in this.dataset))) this.batch.add(event.message_id);
  }

  async fetch(ids) {
    const { task, thread } = this.dataset;
    const on = task ? `task:${task}` : thread ? "thread" : "";
    const found = await part(`${this.dataset.src}?id=${ids.map(encodeURIComponent).join(",")}&on=${encodeURIComponent(on)}`);
    for (const fresh of found.querySelectorAll("li[data-id]")) this.place(fresh, this.row(fresh.dataset.id));
    const none = this.querySelector(".none");
    if (none) none.hidden = this.querySelector("li[data-id]") !== null;
    this.trim();
  }

  place(fresh, old) {
    if (old) return swap(old, fresh);
    const n = Number(fresh.dataset.n);
    const upward = "oldestFirst" in this.dataset;
    const next = [...this.list.children].find((row) => !row.dataset.n || (upward ? Number(row.dataset.n) > n : Number(row.dataset.n) < n));
    this.list.insertBefore(fresh, next ?? null);
    flash(fresh);
    return fresh;
  }

  trim() {
    const rows = [...this.list.querySelectorAll(":scope > li[data-id]")];
    if (rows.length <= ROWS_MAX || "oldestFirst" in this.dataset) return;
    rows.slice(ROWS_MAX).forEach((row) => row.remove());
    this.end(rows[ROWS_MAX - 1].dataset.cursor);
  }

  // The link to what is older than this.
  end(cursor) {
    let row = this.list.querySelector(":scope > .older");
    if (!row) {
      row = document.createElement("li");
      row.className = "older";
      const link = document.createElement("a");
      link.className = "button";
      link.textContent = "Older";
      row.append(link);
    }
    const link = row.querySelector("a");
    link.href = `?cursor=${cursor}`;
    link.dataset.older = cursor;
    this.list.append(row);
  }

  watch() {
    this.sight.disconnect();
    const link = this.querySelector("[data-older]");
    if (link && this.dataset.olderSrc && this.querySelectorAll("li[data-id]").length < OLDER_BY_ITSELF) this.sight.observe(link);
  }

  async older() {
    const link = this.querySelector("[data-older]");
    if (!link || this.loading) return;
    this.loading = true;
    link.setAttribute("aria-busy", "true");
    try {
      const join = this.dataset.olderSrc.includes("?") ? "&" : "?";
      const found = await part(`${this.dataset.olderSrc}${join}cursor=${link.dataset.older}`);
      link.closest("li").replaceWith(found);
    } catch {
      link.removeAttribute("aria-busy");
    }
    this.loading = false;
    this.watch();
  }

  async clicked(event) {
    const more = event.target.closest("[data-more]");
    const older = event.target.closest("[data-older]");
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (more) {
      event.preventDefault();
      more.setAttribute("aria-busy", "true");
      const whole = (await part(more.dataset.more)).querySelector(".msg-body");
      whole.dataset.whole = "1";
      const body = more.closest(".msg-body");
      body.replaceWith(whole);
      whole.tabIndex = -1;
      whole.focus({ preventScroll: true });
    } else if (older && this.dataset.olderSrc && this.querySelectorAll("li[data-id]").length < OLDER_BY_ITSELF) {
      event.preventDefault();
      this.older();
    }
  }
}

export class PersonInbox extends MessageList {
  connectedCallback() {
    this.dataset.task = "user";
    super.connectedCallback();
  }

  concerns(event) {
    return event.task === "user";
  }

  get list() {
    return this.querySelector(".inbox-read");
  }

  place(fresh, old) {
    const unread = fresh.dataset.unread === "1";
    const there = this.querySelector(unread ? ".inbox-unread" : ".inbox-read");
    if (old && old.parentElement === there) return swap(old, fresh);
    if (old && !unread && old.querySelector("details[open] textarea")?.value) {
      // Somebody is writing an answer: it stays where it is, and is only no longer unread.
      old.classList.remove("unread");
      old.dataset.unread = "0";
      return old;
    }
    old?.remove();
    const place = (row) => [Number(row.dataset.rank), Number(row.dataset.n)];
    const [rank, n] = place(fresh);
    const next = [...there.children].find((row) => {
      if (!row.dataset.n) return true;
      const [otherRank, other] = place(row);
      return unread ? otherRank > rank || (otherRank === rank && other < n) : other < n;
    });
    there.insertBefore(fresh, next ?? null);
    flash(fresh);
    return fresh;
  }

  async fetch(ids) {
    await super.fetch(ids);
    this.count();
  }

  count() {
    const unread = [...this.querySelectorAll(".inbox-unread > li[data-id]")];
    const read = this.querySelectorAll(".inbox-read > li[data-id]").length;
    const more = "more" in this.dataset;
    if (more && !unread.length) return location.reload(); // these were all that one page takes
    this.querySelector(".inbox-zero").hidden = unread.length > 0 || !read;
    this.querySelector("h2.section").hidden = !read;
    document.querySelector("[data-unread-words]").textContent = `${unread.length || "nothing"}${more ? "+" : ""} unread`;
    const all = document.getElementById("accept-all");
    if (!all) return;
    all.hidden = unread.length < 2;
    all.querySelectorAll("[name=id]").forEach((field) => field.remove());
    for (const row of unread) {
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "id", value: row.dataset.id });
      all.append(field);
    }
  }
}

customElements.define("message-list", MessageList);
customElements.define("person-inbox", PersonInbox);
