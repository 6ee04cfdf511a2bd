// The card that stays closed until the prediction is committed, then compares.

function drawReveal(model, el) {
  const label = create("p", { className: "ckptlab-label", textContent: "Reveal", tabIndex: -1 });
  const status = statusLine({ className: "ckptlab-outcome" });
  const show = button("Show me anyway", () => model.send({ do: "show" }), { className: "ckptlab-second" });
  const body = create("div");
  el.dataset.reveals = model.get("question_id");
  el.append(label, status, show, body);
  const rubric = rubricForm(model);
  const stop = follow(model, ["state"], () => {
    const state = model.get("state");
    const hadFocus = el.contains(document.activeElement);
    el.dataset.open = state.isOpen ? "true" : "false";
    show.hidden = state.isOpen;
    if (!state.isOpen) {
      status.textContent = "Closed. It opens when you commit your prediction above.";
      body.replaceChildren();
      return;
    }
    status.dataset.outcome = state.outcome;
    status.textContent = state.announcement;
    body.innerHTML = state.body;
    if (state.chart) {
      const picture = create("div", { className: "ckptlab-picture" });
      picture.append(drawChart(state.chart, "The curves of the values above"));
      body.querySelector("dl").after(picture);
    }
    if (state.rubric.length) {
      rubric.draw(state.rubric);
      body.querySelector("dl").after(rubric.form);
    }
    if (hadFocus) (rubric.hasFocus() ? rubric.status : label).focus();
  });
  const stopReplies = follow(model, ["n_replies"], () => {
    if (model.get("error")) rubric.status.textContent = model.get("error");
    else if (model.get("state").rubric?.length) rubric.tell(model.get("state").rubric);
  });
  return () => {
    stop();
    stopReplies();
  };
}

// The learner's own verdict on a reflection.
function rubricForm(model) {
  const status = statusLine();
  const keep = create("button", { type: "submit", textContent: "Keep my marks" });
  const form = create("form", { className: "ckptlab-rubric" });
  let group = create("fieldset");
  let wasSent = false;
  const isJudged = (criteria) => criteria.every((one) => one.met !== null);
  const met = (criteria) => criteria.filter((one) => one.met).map((one) => one.id);
  const tell = (criteria) => {
    status.textContent = isJudged(criteria) ? `Kept: ${met(criteria).length} of ${criteria.length} points.` : "";
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    wasSent = true;
    model.send({ do: "mark", met: chosen(group) });
  });
  return {
    form,
    status,
    hasFocus: () => {
      const sent = wasSent;
      wasSent = false;
      return sent;
    },
    tell,
    draw: (criteria) => {
      const options = criteria.map(({ id, html }) => ({ value: id, html }));
      const ticked = chosen(group); // not kept yet, perhaps
      group = optionGroup("checkbox", uniqueId(), "Which of these does your answer make?", options);
      choose(group, isJudged(criteria) ? met(criteria) : ticked);
      tell(criteria);
      form.replaceChildren(group, create("p", {}, keep), status);
    },
  };
}
