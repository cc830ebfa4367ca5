/**
 * Returns a function that makes names unique. They stay unique after a change of case or separators: a generator turns
 * each name into an identifier in its own style, and `a.b`, `a-b` and `aB` are then all `AB`.
 */
export function createNames(separator: string): (wanted: string) => string {
  const taken = new Set<string>();
  return (wanted) => {
    let name = wanted;
    for (let n = 2; taken.has(toKey(name)); n++) name = `${wanted}${separator}${n}`;
    taken.add(toKey(name));
    return name;
  };
}

const toKey = (name: string): string => name.replace(/[^A-Za-z0-9]/g, "").toLowerCase();

/** Returns the letters and digits of a text for an identifier: `order.paid` is `OrderPaid`. */
export function toPascalCase(text: string): string {
  const words = text.match(/[A-Za-z0-9]+/g) ?? [];
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
}
