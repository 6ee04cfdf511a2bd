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

  let nReplies = model.get("n_replies");
  const clear = () => {
    form.reset();
    kind.clear?.();
  };
  const controls = () => body.querySelectorAll("input, textarea, button");
  const lock = (isLocked) => {
    for (const control of controls()) control.disabled = isLocked;
    if (!isLocked) kind.unlock?.();
    for (const input of sure.querySelectorAll("input")) input.disabled = isLocked || model.get("state").stage !== "open";
    submit.hidden = isLocked;
  };
  let isTryingAgain = false;
  let isSending = false;
  const begin = () => {
    isTryingAgain = true;
    lock(false);
    again.hidden = true;
    submit.textContent = "Commit second try";
    status.textContent = "Your first prediction stays; this one is kept beside it.";
    body.querySelector(":is(input, textarea, button):enabled:not([hidden])").focus();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSending) return; // a double click is one commit
    isSending = true;
    const percent = chosen(sure)[0];
    const confidence = percent === undefined ? null : Number(percent);
    status.textContent = "Committing: the kernel answers when it is free.";
    model.send({ do: isTryingAgain ? "try again" : "commit", answer: kind.read(), confidence });
    const sent = status.textContent;
    setTimeout(() => {
      if (!isSending || status.textContent !== sent) return;
      status.textContent = "No answer from the kernel yet. If it is busy, wait. If it was restarted, run the cells of this lesson again.";
      isSending = false;
    }, 8000);
  });
  let stage = "";
  const stop = follow(model, ["state", "error", "n_replies"], () => {
    const state = model.get("state");
    error.textContent = model.get("error");
    const hadFocus = form.contains(document.activeElement);
    const isLocked = state.stage !== "open";
    if (model.get("n_replies") !== nReplies) isSending = false;
    nReplies = model.get("n_replies");
    // what is being written must outlive whatever else happens to this question
    if (isTryingAgain && state.stage === stage) {
      if (error.textContent) status.textContent = "";
      return;
    }
    isTryingAgain = false;
    if (!isLocked && stage && stage !== "open") clear();
    const isNews = state.stage !== stage;
    stage = state.stage;
    if (isLocked && state.prediction) {
      kind.show(state.prediction.answer, state.prediction.value);
      choose(sure, [String(state.prediction.confidence)]);
    }
    lock(isLocked);
    kind.follow?.(state);
    go.hidden = !isLocked;
    again.hidden = state.stage !== "revealed";
    if (!isLocked) submit.textContent = "Commit prediction";
    status.textContent = error.textContent ? "" : tellState(state);
    if (hadFocus && isLocked && isNews) status.focus();
  });
  return stop;
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
  // two notebooks may stand in one window
  const place = status.closest(".jp-Notebook") ?? document;
  const card = place.querySelector(`.ckptlab-card[data-reveals="${id}"]`);
  if (!card) {
    status.textContent = "The comparison is not on the screen: run the cells below, then scroll down.";
    return;
  }
  card.scrollIntoView({ block: "center" });
  card.querySelector(".ckptlab-label").focus();
}
