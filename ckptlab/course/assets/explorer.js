// Controls, a picture, and a sentence about it. Only the last choice is sent while the
// kernel draws, so a drag never queues up, and the old picture stands until the new
// one is there.

const CONTROLS = { slider: sliderControl, steps: stepsControl, choice: choiceControl, switch: switchControl };

function drawExplorer(model, el) {
  const grid = create("div", { className: "ckptlab-controls" });
  const switches = create("div", { className: "ckptlab-switches" });
  const picture = create("div", { className: "ckptlab-picture" });
  const summary = create("p", { className: "ckptlab-status", role: "status" });
  let [sent, isWaiting, isStale] = [model.get("answered"), false, false];
  const send = () => {
    isStale = isWaiting;
    if (isWaiting) return;
    isWaiting = true;
    sent += 1;
    const chosen = Object.fromEntries(controls.map(({ name, value }) => [name, value()]));
    model.send({ chosen, number: sent });
  };
  const controls = model.get("controls").map((asked) => {
    const control = CONTROLS[asked.kind](asked.kind === "switch" ? switches : grid, asked, send);
    return { name: asked.name, start: asked.start, ...control };
  });
  const reset = button("Reset", () => {
    controls.forEach(({ set, start }) => set(start));
    send();
  }, { className: "ckptlab-second" });
  el.append(grid, switches, picture, summary, create("p", {}, reset));
  const stopAnswers = follow(model, ["answered"], () => {
    if (model.get("answered") !== sent) return;
    isWaiting = false;
    if (isStale) send();
  });
  const stopPicture = follow(model, ["picture", "summary"], () => {
    if (picture.innerHTML !== model.get("picture")) picture.innerHTML = model.get("picture");
    summary.textContent = model.get("summary");
  });
  return () => {
    stopAnswers();
    stopPicture();
  };
}

// Each returns value(), what is chosen, and set(value), which tells nobody.

function sliderControl(grid, { label, values, texts, start }, onInput) {
  const slider = create("input", { type: "range", id: uniqueId(), min: 0, max: values.length - 1, step: 1 });
  const shown = create("output", { htmlFor: slider.id });
  const tell = () => {
    shown.textContent = texts[slider.value];
    slider.setAttribute("aria-valuetext", texts[slider.value]);
  };
  const set = (value) => {
    slider.value = values.indexOf(value);
    tell();
  };
  slider.addEventListener("input", () => {
    tell();
    onInput();
  });
  set(start);
  grid.append(create("label", { htmlFor: slider.id, textContent: label }), slider, shown);
  return { value: () => values[slider.value], set };
}

function stepsControl(grid, asked, onInput) {
  const control = sliderControl(grid, asked, onInput);
  const step = (by) => () => {
    const place = asked.values.indexOf(control.value()) + by;
    if (place < 0 || place >= asked.values.length) return;
    control.set(asked.values[place]);
    onInput();
  };
  const buttons = [button("Back", step(-1)), button("Next", step(1))];
  for (const one of buttons) one.className = "ckptlab-second";
  grid.append(create("p", { className: "ckptlab-buttons ckptlab-whole" }, ...buttons));
  return control;
}

function choiceControl(grid, { label, values, texts, start }, onInput) {
  const list = create("select", { id: uniqueId() });
  values.forEach((value, place) => list.append(create("option", { value: place, textContent: texts[place] })));
  const set = (value) => {
    list.value = values.indexOf(value);
  };
  list.addEventListener("change", onInput);
  set(start);
  grid.append(create("label", { htmlFor: list.id, textContent: label }), list, create("span"));
  return { value: () => values[list.value], set };
}

// A button that is pressed or not; its text says which, not its colour alone.
function switchControl(row, { label, values, texts, start }, onInput) {
  let place = 0;
  const one = button("", () => {
    set(values[1 - place]);
    onInput();
  });
  const set = (value) => {
    place = values.indexOf(value);
    one.setAttribute("aria-pressed", place === 1);
    one.replaceChildren(create("span", { textContent: label }), create("span", { textContent: texts[place] }));
  };
  set(start);
  row.append(one);
  return { value: () => values[place], set };
}
