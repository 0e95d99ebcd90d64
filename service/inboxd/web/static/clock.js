// Clock: times that stay true while a page is open. The same words as rendering.py's `ago` and `left`.

const SECOND = 1_000, MINUTE = 60_000, HOUR = 3_600_000, DAY = 86_400_000;
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function ago(at, now) {
  const passed = Math.max(0, now - at);
  if (passed < 5 * SECOND) return "now";
  if (passed < MINUTE) return `${Math.floor(passed / SECOND)}s ago`;
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)}m ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)}h ago`;
  return `${Math.floor(passed / DAY)}d ago`;
}

export function left(until, now) {
  const rest = until - now;
  if (rest <= 0) return "ran out";
  if (rest < MINUTE) return `${Math.floor(rest / SECOND)}s left`;
  return rest < HOUR ? `${Math.floor(rest / MINUTE)}m left` : `${Math.floor(rest / HOUR)}h left`;
}

function tick() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-ms], time[data-left]")) {
    const said = element.dataset.ms ? ago(Number(element.dataset.ms), now) : left(Number(element.dataset.left), now);
    if (element.firstChild?.data !== said) element.textContent = said;
  }
}

// The exact time in the reader's own zone, made when somebody looks.
function tell(event) {
  const element = event.target.closest?.("time[datetime]");
  if (!element || element.dataset.told) return;
  element.dataset.told = "1";
  element.title = exact.format(new Date(element.dateTime));
}

export function start() {
  tick();
  setInterval(() => document.hidden || tick(), SECOND);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
  document.addEventListener("pointerover", tell, { passive: true });
  document.addEventListener("focusin", (event) => event.target.querySelector && tell({ target: event.target.querySelector("time") ?? event.target }));
}
