// <send-box>: words on their way. The message's id is made before the first try, so a second try after a lost answer sends
// nothing twice. What was typed stays until the broker has it, and outlives a reload.
import { post } from "./acts.js";

function mint() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class SendBox extends HTMLElement {
  connectedCallback() {
    this.form = this.querySelector("form");
    this.field = this.querySelector("textarea");
    this.note = this.querySelector(".form-note");
    this.form.addEventListener("submit", (event) => this.send(event));
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("input", () => { this.grow(); this.keep(); });
    this.form.priority?.addEventListener("change", () => { this.explain(); this.keep(); });
    this.details = this.closest("details");
    this.details?.querySelector("summary").addEventListener("click", (event) => this.open(event));
    this.restore();
    this.explain();
  }

  get key_() {
    return `draft ${this.dataset.draft}`;
  }

  keep() {
    const draft = { id: this.form.message_id.value, body: this.field.value, priority: this.form.priority?.value };
    try {
      if (draft.body) sessionStorage.setItem(this.key_, JSON.stringify(draft));
      else sessionStorage.removeItem(this.key_);
    } catch {
      // No room, or none allowed: the words still stand in the box.
    }
  }

  restore() {
    let draft = null;
    try {
      draft = JSON.parse(sessionStorage.getItem(this.key_));
    } catch {
      return;
    }
    if (!draft?.body || this.field.value) return;
    this.field.value = draft.body;
    this.form.message_id.value = draft.id;
    if (draft.priority && this.form.priority) this.form.priority.value = draft.priority;
    if (this.details) this.details.open = true;
    this.grow();
  }

  // For browsers without `field-sizing`: by its lines, not by how they wrap.
  grow() {
    const lines = this.field.value.split("\n").length;
    this.field.rows = Math.min(12, Math.max(2, lines));
  }

  explain() {
    const urgent = this.form.priority?.value === "urgent";
    const [usual, loud] = [this.querySelector(".for-normal"), this.querySelector(".for-urgent")];
    if (!loud) return;
    usual.hidden = urgent;
    loud.hidden = !urgent;
    this.classList.toggle("urgent", urgent);
  }

  // A question came or went while the page was open. Words that were tried already stay what they were, or a second try would be
  // another message.
  asked(question) {
    if (this.tried) return;
    this.form.answers.value = question;
    this.field.placeholder = question ? this.field.dataset.asked : this.field.dataset.unasked;
  }

  // At once and not when the browser tells that it is open: whoever types on loses no letter.
  open(event) {
    event.preventDefault();
    this.details.open = true;
    this.field.focus();
  }

  key(event) {
    if (event.key === "Escape" && this.details) {
      this.details.open = false;
      this.details.querySelector("summary").focus();
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.form.requestSubmit();
  }

  say(words, bad) {
    this.note.textContent = words;
    this.note.hidden = !words;
    this.note.classList.toggle("bad", bad);
  }

  async send(event) {
    event.preventDefault();
    if (this.sending) return;
    this.sending = this.tried = true;
    const button = this.querySelector("button");
    button.setAttribute("aria-busy", "true");
    this.say("", false);
    const said = await post(this.form);
    button.removeAttribute("aria-busy");
    this.sending = false;
    if (!said.ok) {
      let words = said.words;
      if (said.code === "MESSAGE_ID_REUSED") {
        // An earlier try did arrive, and the words were changed since.
        this.form.message_id.value = mint();
        words = "Your first words did arrive. Send again to send these as well.";
      }
      this.say(words, true);
      this.field.focus();
      return;
    }
    this.tried = false;
    this.field.value = "";
    this.form.message_id.value = mint();
    this.keep();
    this.grow();
    if (this.form.priority) this.form.priority.value = "normal";
    this.explain();
    if (this.details) this.details.open = false;
    else this.field.focus();
  }
}

customElements.define("send-box", SendBox);
