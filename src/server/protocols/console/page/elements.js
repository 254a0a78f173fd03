// Elements of the page. Texts become text nodes: nothing that a model, a client or a file says is read as HTML.

/** An element with attributes, listeners ("onclick"), and children, which are nodes or texts. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Sets the text if it differs, so that a screen reader is not told of what stays. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let count = 0;

/** An id that no other element of the page has. */
export function newId(stem) {
  count += 1;
  return `${stem}-${count}`;
}

/** A label with its control below, as two nodes. */
export function labelled(text, control) {
  if (!control.id) control.id = newId("field");
  return [make("label", { for: control.id }, text), control];
}

/** A table of texts. `headers` are those of the columns; the first cell of each row is its header. */
export function table(caption, headers, rows) {
  const cell = (text, index) => (index === 0 ? make("th", { scope: "row" }, text) : make("td", {}, text));
  return make(
    "table",
    {},
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...headers.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell)))),
  );
}

/** A list of names and values that is filled again and again: returns the function that fills it. */
export function figureList(list) {
  const values = new Map();
  return (figures) => {
    const names = Object.keys(figures);
    if (names.length !== values.size || names.some((name) => !values.has(name))) {
      values.clear();
      list.replaceChildren(
        ...names.map((name) => {
          values.set(name, make("dd"));
          return make("div", {}, make("dt", {}, name), values.get(name));
        }),
      );
    }
    for (const [name, text] of Object.entries(figures)) setText(values.get(name), text);
  };
}

/** Says what has happened, also to screen readers. */
export function announce(text) {
  setText(document.getElementById("status"), text);
}
