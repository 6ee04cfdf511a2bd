// What all cards share: plain forms that a keyboard and a screen reader know. Python
// grades and keeps; the browser draws the state that Python sends. innerHTML receives
// only HTML that Python made safe; what learners typed comes in as text.

const DRAW = {
  prediction: drawPrediction,
  reveal: drawReveal,
  progress: drawProgress,
  explorer: drawExplorer,
  html: drawHtml,
};

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

let nIds = 0;

// An id that no other element of the page has.
function uniqueId() {
  nIds += 1;
  return `ckptlab-${Math.random().toString(36).slice(2)}-${nIds}`;
}

function create(tag, properties = {}, ...children) {
  const { role, ...rest } = properties;
  const node = Object.assign(document.createElement(tag), rest);
  if (role) node.setAttribute("role", role);
  node.append(...children);
  return node;
}

function button(text, onClick, properties = {}) {
  const node = create("button", { type: "button", textContent: text, ...properties });
  if (onClick) node.addEventListener("click", onClick);
  return node;
}

// A region whose new text a screen reader says.
function statusLine(properties = {}) {
  return create("p", { className: "ckptlab-status", role: "status", tabIndex: -1, ...properties });
}

// Calls `draw` now and on every change of the named traits; returns the clean-up.
function follow(model, traits, draw) {
  const events = traits.map((trait) => `change:${trait}`);
  events.forEach((event) => model.on(event, draw));
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

function drawHtml(model, el) {
  return follow(model, ["live_html"], () => {
    el.innerHTML = model.get("live_html");
  });
}
