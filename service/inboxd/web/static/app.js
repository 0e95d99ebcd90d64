// The dashboard's own script: everything on a page that moves. Without it, every page still shows and every form still works.
import "./task-list.js";
import "./message-list.js";
import "./send-box.js";
import "./attention-list.js";
import "./thread-board.js";
import "./activity-feed.js";
import "./panels.js";
import * as acts from "./acts.js";
import * as badge from "./badge.js";
import * as clock from "./clock.js";
import * as live from "./live.js";
import * as notify from "./notify.js";

const YEAR_S = 31_536_000;

function menu() {
  const box = document.getElementById("menu");
  document.addEventListener("click", (event) => box.contains(event.target) || box.removeAttribute("open"));
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    box.removeAttribute("open");
    box.querySelector("summary").focus();
  });
  document.getElementById("theme").addEventListener("change", ({ target }) => {
    document.documentElement.dataset.theme = target.value;
    // A cookie and not the browser's storage: the server renders the right colours at once.
    document.cookie = `inboxd_theme=${target.value}; path=/; max-age=${YEAR_S}; samesite=strict`;
  });
}

function keys() {
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    const box = document.getElementById("filter");
    if (!box) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}

// How far this clock is ahead of UTC at each of the two times that were chosen: between them it may have been changed.
function zone() {
  const form = document.querySelector(".find");
  form?.addEventListener("submit", () => {
    const { since, until, tz } = form.elements;
    tz.value = [since, until].map(({ value }) => -(value ? new Date(value) : new Date()).getTimezoneOffset()).join();
  });
}

menu();
keys();
zone();
clock.start();
acts.start();
badge.start();
notify.start();
live.start();
