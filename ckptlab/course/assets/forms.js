// One function a kind of question. Each puts its controls into `body` and returns
//   read()              the answer, null while there is none
//   show(answer, text)  puts a kept answer into the controls
//   follow(state)       where the form shows more of the state than its answer
//   unlock()            where not every control may be used
//   clear()             where emptying the form is not enough

const FORMS = {
  choice: choiceForm,
  number: numberForm,
  slider: sliderForm,
  order: orderForm,
  sketch: sketchForm,
  reflection: reflectionForm,
};

// A fieldset of radio buttons, or of boxes to tick.
function optionGroup(type, name, legendHtml, options) {
  const group = create("fieldset", {}, create("legend", { innerHTML: legendHtml }));
  for (const { value, html, text } of options) {
    const label = create("span", html === undefined ? { textContent: text } : { innerHTML: html });
    group.append(create("label", {}, create("input", { type, name, value }), label));
  }
  return group;
}

function chosen(group) {
  return [...group.querySelectorAll("input:checked")].map(({ value }) => value);
}

function choose(group, values) {
  for (const input of group.querySelectorAll("input")) input.checked = values.includes(input.value);
}

function choiceForm(body, { prompt, choices, takesSeveral }) {
  const options = choices.map((choice) => ({ value: choice.id, html: choice.html }));
  const group = optionGroup(takesSeveral ? "checkbox" : "radio", uniqueId(), prompt, options);
  if (takesSeveral) group.append(create("p", { className: "ckptlab-hint", textContent: "Tick every one that holds." }));
  body.append(group);
  return {
    read: () => (takesSeveral ? chosen(group) : (chosen(group)[0] ?? null)),
    show: (answer) => choose(group, [].concat(answer)),
  };
}

function numberForm(body, { prompt, sample, unit }, form) {
  const field = create("input", { type: "text", id: uniqueId(), placeholder: sample, autocomplete: "off" });
  const hint = create("span", { id: uniqueId(), textContent: unit });
  field.setAttribute("aria-describedby", hint.id);
  // inside JupyterLab the browser's own submit on Enter does not come through
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    form.requestSubmit();
  });
  body.append(create("label", { htmlFor: field.id, innerHTML: prompt }));
  body.append(create("p", { className: "ckptlab-field" }, field, " ", hint));
  return {
    read: () => field.value,
    show: (answer, text) => {
      field.value = text; // as it was read, with its unit
      hint.hidden = true;
    },
    clear: () => {
      hint.hidden = false;
    },
  };
}

// A slider over the positions that Python computed, with its value said in words.
function positionSlider(positions, texts, onInput) {
  const slider = create("input", { type: "range", id: uniqueId(), min: 0, max: positions.length - 1, step: 1 });
  slider.value = Math.floor(positions.length / 2);
  const shown = create("output", { htmlFor: slider.id });
  const tell = (text) => {
    shown.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };
  slider.addEventListener("input", () => {
    tell(texts[slider.value]);
    onInput();
  });
  const set = (value) => {
    const off = positions.map((position) => Math.abs(position - value));
    slider.value = off.indexOf(Math.min(...off));
    tell(texts[slider.value]);
  };
  return { slider, shown, tell, set, value: () => positions[slider.value] };
}

function sliderForm(body, { prompt, positions, texts }) {
  let isSet = false;
  const one = positionSlider(positions, texts, () => {
    isSet = true;
  });
  one.tell("not set yet");
  const ends = [texts[0], texts[texts.length - 1]].map((text) => create("span", { textContent: text }));
  body.append(create("label", { htmlFor: one.slider.id, innerHTML: prompt }));
  body.append(create("div", { className: "ckptlab-slider" }, ends[0], one.slider, ends[1]));
  body.append(create("p", {}, "Your estimate: ", one.shown));
  const clear = () => {
    isSet = false;
    one.tell("not set yet");
  };
  return { read: () => (isSet ? one.value() : null), show: one.set, clear };
}

function orderForm(body, { prompt, items }) {
  const list = create("ol");
  const said = statusLine({ className: "ckptlab-hint" });
  const group = create("fieldset", {}, create("legend", { innerHTML: prompt }), list, said);
  const rows = () => [...list.children];
  const update = () =>
    rows().forEach((row, place) => {
      row.querySelector(".ckptlab-up").disabled = place === 0;
      row.querySelector(".ckptlab-down").disabled = place === list.children.length - 1;
    });
  const move = (row, step, pressed) => {
    const place = rows().indexOf(row) + step;
    const [upper, lower] = step < 0 ? [row, rows()[place]] : [rows()[place], row];
    list.insertBefore(upper, lower);
    update();
    (pressed.disabled ? row.querySelector("button:enabled") : pressed).focus();
    said.textContent = `${row.dataset.text}: place ${place + 1} of ${list.children.length}.`;
  };
  for (const { id, html, text } of items) {
    const row = create("li", {}, create("span", { innerHTML: html }));
    Object.assign(row.dataset, { id, text });
    for (const [sign, word, step] of [["Up", "up", -1], ["Down", "down", 1]]) {
      const arrow = button(sign, () => move(row, step, arrow), { className: `ckptlab-${word}` });
      arrow.setAttribute("aria-label", `Move ${word}: ${text}`);
      row.append(arrow);
    }
    list.append(row);
  }
  update();
  body.append(group);
  return {
    read: () => rows().map((row) => row.dataset.id),
    show: (answer) => {
      for (const id of answer) list.append(rows().find((row) => row.dataset.id === id));
    },
    unlock: update,
  };
}

function sketchForm(body, { prompt, positions, texts, xLabel, yLabel, at, ends }) {
  let isSet = false;
  const picture = create("div", { className: "ckptlab-picture" });
  const controls = create("div", { className: "ckptlab-controls" });
  const draw = () => {
    const shares = sliders.map(({ slider }) => slider.value / (positions.length - 1));
    const label = at.map((x, number) => `${texts[sliders[number].slider.value]} at ${x}`).join(", ");
    const curves = [{ name: isSet ? "your sketch" : "not set yet", shares }];
    picture.replaceChildren(drawChart({ xLabel, yLabel, at, ends, curves }, `Your sketch: ${label}`));
  };
  const sliders = at.map((x) => {
    const one = positionSlider(positions, texts, () => {
      isSet = true;
      draw();
    });
    one.tell(texts[one.slider.value]);
    controls.append(create("label", { htmlFor: one.slider.id, textContent: `${xLabel} ${x}` }), one.slider, one.shown);
    return one;
  });
  draw();
  body.append(create("fieldset", {}, create("legend", { innerHTML: prompt }), picture, controls));
  return {
    read: () => (isSet ? sliders.map((one) => one.value()) : null),
    show: (answer) => {
      isSet = true;
      answer.forEach((value, number) => sliders[number].set(value));
      draw();
    },
    clear: () => {
      isSet = false;
      for (const { slider, tell } of sliders) tell(texts[slider.value]);
      draw();
    },
  };
}

function reflectionForm(body, { prompt, nHints, mostCharacters }, form, model) {
  const field = create("textarea", { id: uniqueId(), rows: 6, maxLength: mostCharacters });
  const hints = create("ol", { className: "ckptlab-hints" });
  const region = create("div", { role: "status" }, hints);
  const next = button("", () => model.send({ do: "hint" }), { className: "ckptlab-second" });
  body.append(create("label", { htmlFor: field.id, innerHTML: prompt }), region);
  if (nHints) body.append(create("p", {}, next));
  body.append(create("p", {}, field));
  return {
    read: () => field.value,
    show: (answer) => {
      field.value = answer;
    },
    follow: (state) => {
      const opened = state.hints;
      const hadFocus = next === document.activeElement;
      if (hints.children.length > opened.length) hints.replaceChildren();
      while (hints.children.length < opened.length) {
        hints.append(create("li", { innerHTML: opened[hints.children.length] }));
      }
      const isOver = opened.length === nHints || state.stage !== "open";
      next.hidden = isOver;
      next.textContent = `Open hint ${opened.length + 1} of ${nHints}`;
      if (hadFocus && isOver) field.focus();
    },
  };
}
