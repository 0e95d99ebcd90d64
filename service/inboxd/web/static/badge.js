// Badge: how much waits for the person: beside the views' names, in the tab's title and on its icon.

import { Soon, answer } from "./rows.js";

const WAIT_MS = 700;

function show(view, count, loud) {
  const badge = document.querySelector(`[data-count="${view}"]`);
  badge.textContent = count;
  badge.hidden = !count;
  if (loud !== undefined) badge.classList.toggle("loud", loud);
}

function inbox(count) {
  if (Number(document.body.dataset.inbox) === count) return;
  document.body.dataset.inbox = count;
  document.title = `${count ? `(${count}) ` : ""}${document.body.dataset.title} · inboxd`;
  const icon = document.querySelector("link[rel=icon]");
  icon.href = count ? `/ui/icon.svg?n=${Math.min(999, count)}` : icon.dataset.plain;
}

async function read() {
  const counts = await (await answer("/ui/counts", "application/json")).json();
  show("inbox", counts.inbox, counts.urgent > 0);
  inbox(counts.inbox);
  show("attention", counts.attention);
}

export function start() {
  const soon = new Soon(read, WAIT_MS);
  document.addEventListener("inbox-event", ({ detail }) => {
    if (detail.task === "user" && typeof detail.pending === "number") {
      show("inbox", detail.pending);
      inbox(detail.pending);
    }
    soon.ask();
  });
  document.addEventListener("inbox-reset", () => soon.ask());
}
