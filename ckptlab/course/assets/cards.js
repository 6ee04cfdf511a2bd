// The browser's part of the cards: plain forms that a keyboard and a screen reader
// know. Python grades and keeps; this file draws the state that Python sends.
// innerHTML receives only HTML that Python made safe; learners' text never passes it.

const DRAW = { prediction: drawPrediction, reveal: drawReveal, html: drawHtml, explorer: drawExplorer };

export default {
  render({ model, el }) {
    el.classList.add("ckptlab-card");
    // JupyterLab takes arrows and Enter for itself unless the focused element says no
    el.addEventListener("focusin", ({ target }) => {
      target.dataset.lmSuppressShortcuts = "true";
    });
    return DRAW[model.get("kind")](model, el);
  },
};

function create(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// Calls `draw` now and on every change of the named traits; returns the clean-up.
function follow(model, traits, draw) {
  const events = traits.map((trait) => `change:${trait}`);
  events.forEach((event) => model.on(event, draw));
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

function radioGroup(name, legendHtml, options) {
  const group = create("fieldset", {}, create("legend", { innerHTML: legendHtml }));
  for (const { value, html, text } of options) {
    const label = create("span", html === undefined ? { textContent: text } : { innerHTML: html });
    const input = create("input", { type: "radio", name, value });
    group.append(create("label", {}, input, label));
  }
  return group;
}

function chosen(form, name) {
  return form.querySelector(`input[name="${name}"]:checked`)?.value ?? null;
}

function drawPrediction(model, el) {
  const { prompt, choices, sample, unit, confidences } = model.get("form");
  const id = `ckptlab-${crypto.randomUUID()}`;
  const form = create("form", { noValidate: true });
  form.append(create("p", { className: "ckptlab-label", textContent: "Predict" }));
  if (choices) {
    const options = choices.map((choice) => ({ value: choice.id, html: choice.html }));
    form.append(radioGroup(`${id}-answer`, prompt, options));
  } else {
    const field = create("input", { type: "text", id: `${id}-answer`, placeholder: sample, autocomplete: "off" });
    field.setAttribute("aria-describedby", `${id}-unit`);
    // inside JupyterLab the browser's own submit on Enter does not come through
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      form.requestSubmit();
    });
    const hint = create("span", { id: `${id}-unit`, textContent: unit });
    form.append(create("label", { htmlFor: field.id, innerHTML: prompt }));
    form.append(create("p", { className: "ckptlab-field" }, field, " ", hint));
  }
  if (confidences.length) {
    const options = confidences.map(({ percent, label }) => ({ value: percent, text: label }));
    const group = radioGroup(`${id}-sure`, "How sure are you?", options);
    group.classList.add("ckptlab-row");
    form.append(group);
  }
  const button = create("button", { type: "submit", textContent: "Commit prediction" });
  const error = create("p", { className: "ckptlab-error" });
  error.setAttribute("role", "alert");
  const status = create("p", { className: "ckptlab-status", tabIndex: -1 });
  status.setAttribute("role", "status");
  form.append(create("p", {}, button), error, status);
  el.append(form);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const answer = choices ? chosen(form, `${id}-answer`) : form.querySelector("input[type=text]").value;
    const sure = chosen(form, `${id}-sure`);
    status.textContent = "Committing: the kernel answers when it is free.";
    model.send({ answer, confidence: sure === null ? null : Number(sure) });
  });
  return follow(model, ["committed", "error"], () => {
    const committed = model.get("committed");
    error.textContent = model.get("error");
    if (error.textContent) status.textContent = "";
    if (committed.text === undefined) return;
    const hadFocus = form.contains(document.activeElement);
    for (const input of form.querySelectorAll("input")) {
      input.disabled = true;
      if (input.type === "radio") {
        const value = input.name.endsWith("-sure") ? committed.confidence : committed.answer;
        input.checked = input.value === String(value);
      }
    }
    const field = form.querySelector("input[type=text]");
    if (field && !field.value) field.value = committed.text;
    button.hidden = true;
    status.textContent = `Committed: ${committed.text}. The comparison is further down.`;
    if (committed.warning) status.textContent += ` Note: ${committed.warning}.`;
    if (hadFocus) status.focus();
  });
}

function drawReveal(model, el) {
  const live = create("div");
  live.setAttribute("role", "status");
  el.append(create("p", { className: "ckptlab-label", textContent: "Reveal" }), live);
  return follow(model, ["body_html"], () => {
    const body = model.get("body_html");
    el.dataset.open = body ? "true" : "false";
    if (body) live.innerHTML = body;
    else live.textContent = "Closed. It opens when you commit your prediction above.";
  });
}

function drawHtml(model, el) {
  return follow(model, ["live_html"], () => {
    el.innerHTML = model.get("live_html");
  });
}

function drawExplorer(model, el) {
  const controls = create("div", { className: "ckptlab-controls" });
  const picture = create("div", { className: "ckptlab-picture" });
  const summary = create("p", { className: "ckptlab-status" });
  summary.setAttribute("role", "status");
  for (const { name, label, values, texts } of model.get("controls")) {
    const id = `ckptlab-${crypto.randomUUID()}`;
    const start = values.indexOf(model.get("chosen")[name]);
    const slider = create("input", { type: "range", id, min: 0, max: values.length - 1, step: 1 });
    slider.value = start;
    const shown = create("output", { htmlFor: id });
    const tell = () => {
      shown.textContent = texts[slider.value];
      slider.setAttribute("aria-valuetext", texts[slider.value]);
    };
    slider.addEventListener("input", tell);
    slider.addEventListener("change", () => {
      summary.textContent = "Measuring …";
      model.set("chosen", { ...model.get("chosen"), [name]: values[slider.value] });
      model.save_changes();
    });
    tell();
    controls.append(create("label", { htmlFor: id, textContent: label }), slider, shown);
  }
  el.append(controls, picture, summary);
  return follow(model, ["picture", "summary"], () => {
    picture.innerHTML = model.get("picture");
    summary.textContent = model.get("summary");
  });
}
