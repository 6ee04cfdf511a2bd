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
  const stopErrors = follow(model, ["error"], () => {
    if (model.get("error")) rubric.status.textContent = model.get("error");
  });
  return () => {
    stop();
    stopErrors();
  };
}

// The learner's own verdict on a reflection.
function rubricForm(model) {
  const status = statusLine();
  const keep = create("button", { type: "submit", textContent: "Keep my marks" });
  const form = create("form", { className: "ckptlab-rubric" });
  let group = create("fieldset");
  let wasSent = false;
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
    draw: (criteria) => {
      const options = criteria.map(({ id, html }) => ({ value: id, html }));
      group = optionGroup("checkbox", uniqueId(), "Which of these does your answer make?", options);
      const met = criteria.filter((one) => one.met).map((one) => one.id);
      choose(group, met);
      const isJudged = criteria.every((one) => one.met !== null);
      status.textContent = isJudged ? `Kept: ${met.length} of ${criteria.length} points.` : "";
      form.replaceChildren(group, create("p", {}, keep), status);
    },
  };
}
