// Which models can be given the same input, and how far their answers are apart. Pure functions.

/** What two models have to have in common for the same input. */
export function inputsOf(info) {
  return JSON.stringify(info.inputs.map(({ name, type, shape }) => [name, type, shape?.length ?? null]));
}

/** What differs with each answer, whatever the model says. */
const namesOfAnswers = ["id", "created", "model", "model_name", "model_version", "system_fingerprint"];

function withoutNames(answer) {
  if (answer === null || typeof answer !== "object" || Array.isArray(answer)) return answer;
  return Object.fromEntries(Object.entries(answer).filter(([name]) => !namesOfAnswers.includes(name)));
}

/** The numbers of an answer in their order, and its other values as texts. */
function leavesOf(value, leaves = { numbers: [], others: [] }) {
  if (typeof value === "number") leaves.numbers.push(value);
  else if (Array.isArray(value)) value.forEach((one) => leavesOf(one, leaves));
  else if (value !== null && typeof value === "object") Object.keys(value).sort().forEach((name) => leavesOf(value[name], leaves));
  else leaves.others.push(String(value));
  return leaves;
}

/** The largest difference of two numbers at the same place of two answers; undefined where these have another shape. */
export function largestDifference(left, right) {
  const [a, b] = [leavesOf(left).numbers, leavesOf(right).numbers];
  if (a.length !== b.length) return undefined;
  return a.reduce((most, number, index) => Math.max(most, Math.abs(number - b[index])), 0);
}

/** How an answer compares with that of the first model, in words. */
export function comparison(firstAnswer, otherAnswer, write) {
  const [first, other] = [withoutNames(firstAnswer), withoutNames(otherAnswer)];
  const difference = largestDifference(first, other);
  if (difference === undefined) return "another shape";
  const [a, b] = [leavesOf(first).others.join(), leavesOf(other).others.join()];
  if (difference === 0) return a === b ? "equal" : "equal numbers, other texts";
  return `numbers differ by at most ${write(difference)}${a === b ? "" : "; other texts"}`;
}
