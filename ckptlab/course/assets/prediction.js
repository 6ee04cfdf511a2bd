// The card that takes a prediction: a form, its sealing, and the second try.

function drawPrediction(model, el) {
  const asked = model.get("form");
  const form = create("form", { noValidate: true });
  form.append(create("p", { className: "ckptlab-label", textContent: "Predict" }));
  const body = create("div");
  form.append(body);
  const kind = FORMS[asked.kind](body, asked, form, model);
  const sure = optionGroup(
    "radio",
    uniqueId(),
    "How sure are you?",
    asked.confidences.map(({ percent, label }) => ({ value: percent, text: label })),
  );
  sure.className = "ckptlab-row";
  sure.hidden = !asked.confidences.length;
  const submit = create("button", { type: "submit", textContent: "Commit prediction" });
  const error = create("p", { className: "ckptlab-error", role: "alert" });
  const status = statusLine();
  const go = button("Go to the comparison", () => goToReveal(model, status), { className: "ckptlab-second" });
  const again = button("Second try", () => begin(), { className: "ckptlab-second" });
  form.append(sure, create("p", {}, submit), error, status, create("p", { className: "ckptlab-buttons" }, go, again));
  el.dataset.asks = model.get("question_id");
  el.append(form);

  const controls = () => body.querySelectorAll("input, textarea, button");
  const lock = (isLocked) => {
    for (const control of controls()) control.disabled = isLocked;
    if (!isLocked) kind.unlock?.();
    for (const input of sure.querySelectorAll("input")) input.disabled = isLocked || model.get("state").stage !== "open";
    submit.hidden = isLocked;
  };
  const begin = () => {
    lock(false);
    again.hidden = true;
    submit.textContent = "Commit second try";
    status.textContent = "Your first prediction stays; this one is kept beside it.";
    body.querySelector("input:enabled, textarea:enabled, button:enabled").focus();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const percent = chosen(sure)[0];
    status.textContent = "Committing: the kernel answers when it is free.";
    model.send({ do: "commit", answer: kind.read(), confidence: percent === undefined ? null : Number(percent) });
  });
  const stopErrors = follow(model, ["error"], () => {
    error.textContent = model.get("error");
    if (error.textContent) status.textContent = "";
  });
  const stopState = follow(model, ["state"], () => {
    const state = model.get("state");
    const hadFocus = form.contains(document.activeElement);
    const isLocked = state.stage !== "open";
    // a hint, or an answer in another card, must not disturb what is being written
    if (isLocked && state.prediction) {
      kind.show(state.prediction.answer, state.prediction.value);
      choose(sure, [String(state.prediction.confidence)]);
    }
    lock(isLocked);
    kind.follow?.(state);
    go.hidden = !isLocked;
    again.hidden = state.stage !== "revealed";
    if (!isLocked) submit.textContent = "Commit prediction";
    status.textContent = tellState(state);
    if (hadFocus && isLocked) status.focus();
  });
  return () => {
    stopErrors();
    stopState();
  };
}

function tellState({ stage, prediction, second, warning }) {
  const parts = [];
  if (prediction) parts.push(`Committed: ${prediction.text}.`);
  else if (stage !== "open") parts.push("Opened without a prediction.");
  if (second) parts.push(`Second try: ${second.text}.`);
  if (stage !== "open") parts.push("The comparison is further down.");
  if (warning) parts.push(`⚠ ${warning}`);
  return parts.join(" ");
}

function goToReveal(model, status) {
  const id = CSS.escape(model.get("question_id"));
  const card = document.querySelector(`.ckptlab-card[data-reveals="${id}"]`);
  if (!card) {
    status.textContent = "The comparison is not on the screen: run the cells below, then scroll down.";
    return;
  }
  card.scrollIntoView({ block: "center" });
  card.querySelector(".ckptlab-label").focus();
}
