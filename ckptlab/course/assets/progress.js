// The card of the learner's progress: what Python says, two downloads, and erasing.

function drawProgress(model, el) {
  const body = create("div", { className: "ckptlab-wide" });
  const name = create("input", { type: "text", id: uniqueId(), autocomplete: "off" });
  const status = statusLine();
  const download = (format) => () => model.send({ do: "download", format, name: name.value });
  const refresh = button("Refresh", () => model.send({ do: "refresh" }), { className: "ckptlab-second" });
  const csv = button("Download CSV", download(".csv"), { className: "ckptlab-second" });
  const json = button("Download JSON", download(".json"), { className: "ckptlab-second" });
  const erase = button("Erase all my answers …", () => ask(true), { className: "ckptlab-second" });
  const question = create("p", { id: uniqueId() });
  const sure = button("Erase for good", () => {
    model.send({ do: "erase" });
    ask(false);
    status.focus();
  });
  const keep = button("Keep them", () => ask(false), { className: "ckptlab-second" });
  const dialog = create("div", { role: "group", hidden: true }, question, create("p", { className: "ckptlab-buttons" }, keep, sure));
  dialog.setAttribute("aria-labelledby", question.id);
  const ask = (isAsking) => {
    const count = model.get("n_predictions");
    question.textContent = `Erase ${count === 1 ? "1 prediction" : `${count} predictions`} for good? Nobody can bring them back.`;
    dialog.hidden = !isAsking;
    erase.hidden = isAsking;
    (isAsking ? keep : erase).focus();
  };
  const field = create("p", { className: "ckptlab-field" }, create("label", { htmlFor: name.id, textContent: "Name in the file, if you want one: " }), name);
  const tools = create("p", { className: "ckptlab-buttons" }, refresh, csv, json, erase);
  el.append(create("p", { className: "ckptlab-label", textContent: "Your progress" }), body, field, tools, dialog, status);
  const stop = follow(model, ["live_html"], () => {
    body.innerHTML = model.get("live_html");
  });
  const stopSaying = follow(model, ["said"], () => {
    status.textContent = model.get("said");
  });
  const save = () => {
    const { file, text } = model.get("download");
    if (!file) return;
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
    create("a", { href: url, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  model.on("change:download", save);
  return () => {
    stop();
    stopSaying();
    model.off("change:download", save);
  };
}
