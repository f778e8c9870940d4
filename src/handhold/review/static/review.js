// Live updates, keys and small conveniences. Everything can be read without this file.
"use strict";
(() => {
  const body = document.body, base = body.dataset.base;
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const reveal = (element) => { if (element) element.hidden = false; };

  // --- theme and keys dialog
  const theme = $("#theme"), keys = $("#keys");
  reveal(theme); reveal($("#keys-button"));
  theme?.addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.className || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.className = next;
    document.cookie = `theme=${next}; path=${base}/; samesite=strict; max-age=31536000`;
  });
  $("#keys-button")?.addEventListener("click", () => keys.showModal());
  const keysOn = $("#keys-on");
  keysOn.checked = localStorage.getItem("handhold-keys") !== "off";
  keysOn.addEventListener("change", () => localStorage.setItem("handhold-keys", keysOn.checked ? "on" : "off"));

  // --- live
  const toldKey = `handhold-told${base}`; // ids of pending questions that some tab has announced
  const readTold = () => JSON.parse(localStorage.getItem(toldKey) ?? "[]");
  const markTold = (ids) => localStorage.setItem(toldKey, JSON.stringify(ids));
  markTold([...new Set([...readTold(), ...$$("[data-question]").map((each) => each.dataset.question)])]);
  let seen = readTold(); // in this tab
  const frontKey = `handhold-front${base}`; // when a tab that is in front last heard of the server
  const isFront = () => Date.now() - Number(localStorage.getItem(frontKey)) < 15000;
  const noteFront = () => {
    if (document.hidden) localStorage.removeItem(frontKey); else localStorage.setItem(frontKey, String(Date.now()));
  };
  document.addEventListener("visibilitychange", noteFront);
  addEventListener("pagehide", () => localStorage.removeItem(frontKey));
  let source = null, lastHeard = 0, lastMessage = Date.now(), questions = null, title = document.title.replace(/^\(\d+\) /, "");
  const setLive = (live) => {
    $("#live").innerHTML = live ? '<span class="live">Live</span>' : "<small>Not live</small>";
    body.toggleAttribute("data-offline", !live);
    $("#offline").hidden = live;
    if (!live) $("#offline-at").textContent = new Date().toTimeString().slice(0, 8);
    for (const button of $$(".answers button, .more button[name=answer], #commit")) {
      if (!live && !button.disabled) { button.disabled = true; button.dataset.offline = ""; }
      if (live && "offline" in button.dataset) { button.disabled = false; delete button.dataset.offline; }
    }
  };
  const heard = () => {
    if (!lastHeard || body.hasAttribute("data-offline")) setLive(true);
    lastHeard = Date.now();
    if (!document.hidden) noteFront();
  };
  const lost = () => { if (lastHeard && !body.hasAttribute("data-offline")) setLive(false); };
  // Several events soon after each other are one. htmx's own throttle would drop the last of them.
  const waiting = new Map();
  const triggerSoon = (name, delay) => {
    if (waiting.has(name)) return;
    waiting.set(name, setTimeout(() => { waiting.delete(name); htmx.trigger(body, name); }, delay));
  };
  const handlers = {
    hello: (data) => updateQuestions(data.questions),
    ping: () => {},
    calls: () => triggerSoon("calls", 700),
    output: () => triggerSoon("output", 300),
    questions: (data) => { updateQuestions(data.questions); htmx.trigger(body, "questions"); },
  };
  const handle = (name, data) => { heard(); handlers[name](data); };
  // A browser opens six connections to a server, so only one tab has the stream: it passes events on to the others.
  // Without locks (an old browser, or no secure context) each tab has its own.
  const canShare = "locks" in navigator && "BroadcastChannel" in window;
  const channel = canShare ? new BroadcastChannel(`handhold${base}`) : null;
  const send = (name, data) => channel?.postMessage({ name, data });
  const connect = () => {
    source?.close();
    source = new EventSource(`${base}/events`);
    for (const name of Object.keys(handlers))
      source.addEventListener(name, (event) => {
        const data = JSON.parse(event.data);
        questions = data.questions ?? questions;
        handle(name, data);
        send(name, data);
      });
    source.onerror = () => { lost(); send("lost"); };
  };
  const lead = (options = {}) => {
    if (!canShare) { connect(); return; }
    const hold = () => { connect(); return new Promise(() => {}); };
    navigator.locks.request(`handhold${base}`, options, hold).catch((error) => {
      source?.close();
      source = null;
      if (error.name === "AbortError") lead(); else connect(); // another tab took over, or there can be no lock
    });
  };
  const retry = () => { if (source) connect(); else lead({ steal: true }); };
  const join = () => { lead(); send("join"); };
  if (channel) channel.onmessage = ({ data: { name, data } }) => {
    lastMessage = Date.now();
    if (name === "join") { if (source?.readyState === EventSource.OPEN && questions) send("hello", { questions }); }
    else if (name === "lost") lost();
    else handle(name, data);
  };
  setInterval(() => {
    if (lastHeard && Date.now() - lastHeard > 25000) lost();
    if (source?.readyState === EventSource.CLOSED) connect(); // after a refusal, the browser does not try again
    if (source && body.hasAttribute("data-offline")) send("lost");
    if (!source && Date.now() - lastMessage > 25000 && !document.hidden) { lastMessage = Date.now(); retry(); } // it hangs
  }, 2000);
  $("#retry").addEventListener("click", retry);
  if ("live" in body.dataset) addEventListener("load", join);
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // --- questions that come and go
  const list = body.dataset.page === "now" ? $("#questions") : null;
  const fetchPart = async (path) => {
    const response = await fetch(base + path, { headers: { "HX-Request": "true" } });
    return response.ok || response.status === 409 ? response.text() : "";
  };
  const toElement = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    return holder.content.firstElementChild;
  };
  const updateQuestions = async (ids) => {
    const told = readTold(), isUntold = ids.some((id) => !told.includes(id));
    const fresh = ids.filter((id) => !seen.includes(id)).length;
    const count = $("#nav-count");
    count.firstChild.data = String(ids.length);
    count.classList.toggle("wait", ids.length > 0);
    document.title = (ids.length ? `(${ids.length}) ` : "") + title;
    seen = ids;
    markTold(ids);
    if (fresh) announce(fresh, isUntold);
    if (!list) return;
    for (const article of $$("[data-question]", list)) {
      if (ids.includes(article.dataset.question) || article.querySelector(".htmx-request")) continue;
      const other = toElement(await fetchPart(`/question/${article.dataset.question}`));
      if (other && article.isConnected) article.replaceWith(other);
    }
    for (const id of ids) {
      if ($(`[data-question="${CSS.escape(id)}"]`, list)) continue;
      const article = toElement(await fetchPart(`/question/${id}`));
      if (!article || !article.dataset.question || $(`[data-question="${CSS.escape(id)}"]`, list)) continue;
      list.insertBefore(article, $("#nothing"));
      htmx.process(article);
      watchFold(article);
    }
    if ($("#nothing")) $("#nothing").hidden = ids.length > 0;
    await updateCells();
  };
  const updateCells = async () => {
    const cells = $("#cells") && toElement(await fetchPart("/now/cells"));
    if (!cells) return;
    $("#cells").replaceWith(cells);
    arrangeQuestions(cells.dataset.order.split(" "));
  };
  // The header says which question has which number; cards are put into its order and labelled by it.
  const arrangeQuestions = (order) => {
    const rank = (article) => { const at = order.indexOf(article.dataset.question); return at < 0 ? order.length : at; };
    const articles = $$("[data-question]", list), wanted = [...articles].sort((one, other) => rank(one) - rank(other));
    if (wanted.some((article, n) => article !== articles[n])) {
      const active = document.activeElement, before = active.getBoundingClientRect().top;
      const slots = articles.map((article) => { const slot = document.createComment(""); article.before(slot); return slot; });
      wanted.forEach((article, n) => slots[n].replaceWith(article));
      if (active.closest("[data-question]")) { // who reads or types in a card stays there
        active.focus({ preventScroll: true });
        scrollBy(0, active.getBoundingClientRect().top - before);
      }
    }
    wanted.forEach((article, n) => {
      $$("[data-number]", article).forEach((label) => { label.textContent = String(n + 1); });
      $("form", article)?.setAttribute("aria-label", `Answer question ${n + 1}`);
    });
  };
  if (list) body.addEventListener("calls", updateCells); // a call may have ended: its question is not a live one any more
  const announce = (many, isUntold) => {
    $("#announce").textContent = many === 1 ? "A question waits for you." : `${many} questions wait for you.`;
    if (isUntold && window.Notification?.permission === "granted" && document.hidden && !isFront())
      new Notification("Handhold", { body: $("#announce").textContent, tag: "handhold-question" });
  };
  const notify = $("#notify");
  if (notify && "Notification" in window && Notification.permission === "default") {
    reveal(notify);
    notify.addEventListener("click", async () => { await Notification.requestPermission(); notify.hidden = true; });
  }

  // --- what is not on screen
  const watchFold = (article) => {
    const text = $(".fold-text", article);
    if (!text || !("IntersectionObserver" in window)) return;
    const parts = [...$$("[data-effect]", article), ...$$("[id$=-how]", article)];
    const hidden = new Set(parts);
    const write = () => {
      const effects = parts.filter((part) => part.dataset.effect !== undefined);
      const names = [...parts].filter((part) => hidden.has(part));
      text.replaceChildren(document.createTextNode(`${effects.length} ${effects.length === 1 ? "effect" : "effects"}. `));
      if (!names.length) { text.append("All of it was on screen."); return; }
      const strong = document.createElement("b");
      strong.textContent = "Not on screen: ";
      text.append(strong);
      names.slice(0, 3).forEach((part, n) => {
        const link = document.createElement("a");
        link.href = `#${part.id}`;
        link.textContent = part.dataset.effect ?? "command and rule";
        text.append(n ? ", " : "", link);
      });
      text.append(names.length > 3 ? ` and ${names.length - 3} more.` : ".");
    };
    // An element counts as seen once its end was on screen.
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries)
        if (entry.isIntersecting && (entry.intersectionRatio > 0.98 || entry.boundingClientRect.bottom <= entry.rootBounds.bottom))
          hidden.delete(entry.target);
      write();
    }, { threshold: [0, 0.25, 0.5, 0.75, 0.99, 1], rootMargin: "0px 0px -150px 0px" });
    parts.forEach((part) => observer.observe(part));
  };
  $$(".question").forEach(watchFold);
  addEventListener("load", () => {
    document.addEventListener("htmx:afterSwap", (event) => $$(".question", event.detail.elt.parentNode ?? document).forEach(watchFold));
  });

  // --- answers that open a form first
  const toggle = (id, open) => {
    const more = document.getElementById(id), button = $(`[aria-controls="${id}"]`);
    if (!more || !button) return;
    more.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    (open ? $("textarea, button", more) : button)?.focus();
  };
  document.addEventListener("click", (event) => {
    const opens = event.target.closest("[data-opens]"), closes = event.target.closest("[data-closes]");
    if (opens) { event.preventDefault(); event.stopPropagation(); toggle(opens.dataset.opens, $(`#${opens.dataset.opens}`).hidden); }
    if (closes) toggle(closes.dataset.closes, false);
    const goto = event.target.closest("[data-goto]");
    if (goto) { event.preventDefault(); focusQuestion($(`[data-question="${CSS.escape(goto.dataset.goto)}"]`)); }
    if (event.target.closest("[data-copy]")) copyLink(location.href);
    if (event.target.matches("[data-fixed]")) event.preventDefault();
  }, true);
  document.addEventListener("change", () => {
    const chosen = $("#chosen");
    if (chosen) chosen.textContent = String($$("input[name=file]:checked").length);
  });
  const copyLink = async (url) => {
    await navigator.clipboard?.writeText(url);
    $("#announce").textContent = "The link was copied.";
  };
  $$("[data-copy]").forEach(reveal);

  // --- keys: letters only while a list or a question has the focus, and never in a field
  const focusQuestion = (article) => { article?.scrollIntoView({ block: "start" }); article?.focus({ preventScroll: true }); };
  let prefix = "";
  document.addEventListener("keydown", (event) => {
    const target = event.target, field = target.matches("input, textarea, select");
    if (event.key === "Enter" && event.ctrlKey) {
      const form = target.closest("form");
      const send = target.closest(".more") ? $("button[name=answer]", target.closest(".more")) : $("#commit", form ?? document);
      if (send) { event.preventDefault(); send.click(); }
      return;
    }
    if (event.key === "Escape" && !keys.open) {
      const more = target.closest(".more");
      if (more) { toggle(more.id, false); return; }
      if (field) { target.blur(); return; }
      const back = $(".bar a.btn, .crumbs a:last-of-type");
      if (back) location.href = back.href;
      return;
    }
    if (field || event.ctrlKey || event.metaKey || event.altKey || !keysOn.checked || keys.open) return;
    if (prefix === "g") {
      prefix = "";
      const page = ("live" in body.dataset ? { n: "now", t: "timeline", f: "forks" } : { t: "timeline" })[event.key];
      if (page) { location.href = `${base}/${page}`; event.preventDefault(); }
      return;
    }
    if (event.key === "g") { prefix = "g"; setTimeout(() => { prefix = ""; }, 1000); return; }
    if (event.key === "?") { keys.showModal(); return; }
    if (event.key === "/") { const filter = $("#f-p"); if (filter) { filter.focus(); event.preventDefault(); } return; }
    const questions = $$("[data-question]");
    if (/^[1-9]$/.test(event.key) && questions.length) {
      focusQuestion(questions.find((each) => $("[data-number]", each).textContent === event.key));
      return;
    }
    const article = target.closest(".question");
    if (article && handleQuestionKey(event, article, questions)) return;
    handleListKey(event, target);
  });
  const handleQuestionKey = (event, article, questions) => {
    const step = { j: 1, k: -1 }[event.key];
    if (step) { focusQuestion(questions[questions.indexOf(article) + step]); return true; }
    const answer = $(`[data-key="${CSS.escape(event.key)}"]`, article);
    if (!answer) return false;
    answer.focus(); // a key only selects; Enter sends
    event.preventDefault();
    return true;
  };
  const handleListKey = (event, target) => {
    const rows = $$(".calls li a[id]");
    const at = rows.indexOf(target.closest("a"));
    const step = { j: 1, k: -1 }[event.key];
    if (step && rows.length) {
      rows[Math.max(0, Math.min(rows.length - 1, at + step))].focus();
      event.preventDefault();
      return;
    }
    const page = { j: "a[rel=next]", k: "a[rel=prev]", u: "[data-undo]", r: "[data-redo]", c: "button", m: ".primary" }[event.key];
    const row = target.closest("li") ?? document;
    if (event.key === "y") { copyLink(target.closest("a")?.href ?? location.href); return; }
    if (event.key === "c" && body.dataset.page === "forks") { $("form button")?.click(); return; }
    if (event.key === "m" && body.dataset.page === "forks") { $(".primary")?.focus(); return; }
    if (page && "jkur".includes(event.key)) { const link = $(page, row) ?? $(page); if (link) location.href = link.href; }
  };
})();
