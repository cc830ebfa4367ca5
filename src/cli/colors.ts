import { styleText } from "node:util";

type Paint = (text: string) => string;

// Colors are used only if both streams are terminals. Output to a file or another program is plain text.
const stream = process.stdout.isTTY ? process.stderr : process.stdout;

/** `styleText` checks the stream, NO_COLOR and FORCE_COLOR. */
const paint =
  (style: "red" | "green" | "yellow" | "cyan" | "dim"): Paint =>
  (text) =>
    styleText(style, text, { stream });

export const colors: Readonly<Record<"red" | "green" | "yellow" | "cyan" | "dim", Paint>> = {
  red: paint("red"),
  green: paint("green"),
  yellow: paint("yellow"),
  cyan: paint("cyan"),
  dim: paint("dim"),
};
