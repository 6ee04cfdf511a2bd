// The sliders, the picture and the sentence of an explorer.

function drawExplorer(model, el) {
  const controls = create("div", { className: "ckptlab-controls" });
  const picture = create("div", { className: "ckptlab-picture" });
  const summary = create("p", { className: "ckptlab-status", role: "status" });
  for (const { name, label, values, texts } of model.get("controls")) {
    const slider = create("input", { type: "range", id: uniqueId(), min: 0, max: values.length - 1, step: 1 });
    slider.value = values.indexOf(model.get("chosen")[name]);
    const shown = create("output", { htmlFor: slider.id });
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
    controls.append(create("label", { htmlFor: slider.id, textContent: label }), slider, shown);
  }
  el.append(controls, picture, summary);
  return follow(model, ["picture", "summary"], () => {
    picture.innerHTML = model.get("picture");
    summary.textContent = model.get("summary");
  });
}
