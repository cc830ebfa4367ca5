/** A text that is already HTML and is not escaped again. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}
export type Content = Html | string | number | undefined | false | readonly Content[];

/** A template tag that escapes its values, except `Html`. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(strings.map((text, index) => text + toText(values[index])).join(""));
}

function toText(content: Content): string {
  if (content instanceof Html) return content.text;
  if (content === undefined || content === false) return "";
  if (typeof content === "object") return content.map(toText).join("");
  return String(content).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
