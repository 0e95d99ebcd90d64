// <task-about>, <thread-about>, <message-about>, <live-charts>: small panels that are read anew when what they show may have changed.
import { Soon, part, tasksOf } from "./rows.js";

class Panel extends HTMLElement {
  waitMs = 250;
  everyMs = 15_000;

  connectedCallback() {
    const soon = new Soon(() => this.read(), this.waitMs);
    document.addEventListener("inbox-event", ({ detail }) => this.concerns(detail) && soon.ask());
    document.addEventListener("inbox-reset", () => soon.ask());
    setInterval(() => document.hidden || soon.ask(), this.everyMs);
  }

  concerns() {
    return false;
  }

  async read() {
    this.replaceChildren(await part(this.dataset.src));
    this.shown?.();
  }
}

class TaskAbout extends Panel {
  concerns(event) {
    return tasksOf(event).includes(this.dataset.task);
  }
}

class ThreadAbout extends Panel {
  concerns(event) {
    return event.thread_id === this.dataset.thread;
  }

  shown() {
    const { status, question } = this.querySelector("[data-status]").dataset;
    const over = ["done", "failed", "cancelled"].includes(status);
    document.querySelectorAll("[data-thread-open]").forEach((one) => { one.hidden = over; });
    document.querySelector("send-box[data-thread-open]")?.asked(question);
  }
}

class MessageAbout extends Panel {
  concerns(event) {
    return event.message_id === this.dataset.message;
  }
}

class LiveCharts extends Panel {
  everyMs = 20_000;
}

customElements.define("task-about", TaskAbout);
customElements.define("thread-about", ThreadAbout);
customElements.define("message-about", MessageAbout);
customElements.define("live-charts", LiveCharts);
