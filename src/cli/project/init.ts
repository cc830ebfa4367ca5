import {
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { getSystemErrorMessage } from "node:util";
import { consola } from "consola";
import { findConfig, hasConfig, isFolder } from "../../config/load.ts";
import { toPortableWord } from "../../core/terminal/shell.ts";
import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { colors } from "../colors.ts";
import { toManifest, toPackages } from "./init-manifest.ts";

/** Writes the files of a new project: all of them, or none. */
export async function init(dir: string | undefined, flags: { template?: Template }): Promise<void> {
  const answers = await ask(dir, flags.template);
  if (!answers) {
    process.exitCode = 1;
    return;
  }
  const root = resolve(answers.dir);
  try {
    const files = readTemplate(answers.template);
    files.set("package.json", toManifest(basename(root), isWeb(answers.template)));
    // In a folder that already is a package, agentserve is added, and these files are kept.
    const isPackage = isFile(join(root, "package.json"));
    const kept = isPackage ? ofEveryPackage.filter((path) => isFile(join(root, path))) : [];
    for (const path of kept) files.delete(path);
    refuseClashes(root, [...files.keys()]);
    write(root, files);
    process.stdout.write(describe(root, answers.template, [...files.keys()].toSorted(), kept));
  } catch (error) {
    throw toReadable(error, root);
  }
}

const ofEveryPackage = ["package.json", "tsconfig.json", "README.md", ".gitignore"];

/** The templates. After the start of the server, a user makes the first `call`, or opens the `page`. */
const templates = {
  starter: {
    about: "an agent with a tool, a workflow that waits for approval, optional auth",
    call: ["agent", "assistant", "What is the weather in Berlin?"],
  },
  minimal: { about: "one file with one agent", call: ["agent", "assistant", "Hello"] },
  pipeline: {
    about: "a document pipeline: a loop over pages, approval with a deadline, a wait of two days, a page",
    call: ["workflow", "document", '{"title":"Notes","text":"One page."}'],
  },
  webhook: {
    about: "a signed webhook that answers 202, a nightly schedule, an approval by a manager",
    call: [
      "workflow",
      "order",
      '{"number":"A-1","requestedBy":"ada","items":[{"name":"lamp","price":40,"quantity":2}]}',
    ],
  },
  "support-desk": {
    about: "a support desk with React: sign-in, a chat with history, a refund that a manager approves",
    page: "http://localhost:5173/desk/",
  },
} as const;
const isWeb = (template: Template): boolean => "page" in templates[template];
type Template = keyof typeof templates;

interface Answers {
  readonly dir: string;
  readonly template: Template;
}

/** Asks for the missing arguments in a terminal, otherwise uses the defaults. Returns undefined if the user cancels. */
async function ask(dir: string | undefined, template: Template | undefined): Promise<Answers | undefined> {
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
  if (!isTerminal) return { dir: dir ?? ".", template: template ?? "starter" };
  const cancel = "null";
  const folder =
    dir ?? (await consola.prompt("Which folder?", { type: "text", default: ".", placeholder: ".", cancel }));
  if (folder === null) return undefined;
  const options = Object.entries(templates).map(([value, { about }]) => ({ value, label: value, hint: about }));
  const chosen =
    template ?? (await consola.prompt("Which template?", { type: "select", options, initial: "starter", cancel }));
  if (chosen === null) return undefined;
  return { dir: folder, template: chosen as Template }; // consola returns one of the options
}

/** Returns the files of a template, by their path in the project. */
function readTemplate(template: Template): Map<string, string> {
  const root = import.meta.url.endsWith(".ts") ? "../../.." : ".."; // from src/cli/project, or from dist
  const folder = fileURLToPath(new URL(`${root}/templates/${template}`, import.meta.url));
  // Ignored files are not part of a template. They exist if the template was served in place.
  const ignored = new Set(readFileSync(join(folder, "_gitignore"), "utf8").split(/\r?\n/));
  const files = new Map<string, string>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    const path = relative(folder, file);
    if (!entry.isFile() || path.split(sep).some((part) => ignored.has(part))) continue;
    // npm does not publish a file named .gitignore.
    files.set(path === "_gitignore" ? ".gitignore" : path, readFileSync(file, "utf8"));
  }
  return files;
}

/** Throws if a file would be overwritten, or written outside the folder. */
function refuseClashes(root: string, paths: readonly string[]): void {
  if (exists(root) && !isFolder(root)) {
    throw new UserError(`${toVisible(root)} is not a folder`, { hint: "no files were written; choose another folder" });
  }
  const clashes = new Set(paths.map((path) => findClash(root, path)).filter((path) => path !== undefined));
  // Only one of two configs would be served.
  if (hasConfig(root)) clashes.add(basename(findConfig(undefined, root)));
  if (clashes.size === 0) return;
  const named = [...clashes].toSorted().slice(0, 3).join(", ");
  const more = clashes.size > 3 ? ` and ${clashes.size - 3} more` : "";
  throw new UserError(`${toVisible(root)} already has ${named}${more}`, {
    hint: "no files were written; move the existing files, or use a new folder: npx agentserve init my-app",
  });
}

/** Returns the path that blocks a file: its own, or a parent other than a real folder. */
function findClash(root: string, path: string): string | undefined {
  const folder = dirname(path);
  if (folder !== ".") {
    const clash = findClash(root, folder);
    if (clash !== undefined && !lstatSync(join(root, clash)).isDirectory()) return clash;
  }
  return exists(join(root, path)) ? path : undefined;
}

// Not `existsSync`, which returns false for a dangling link: writing to one creates a file elsewhere.
const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

/** Writes all files. If one fails, removes those already written. */
function write(root: string, files: ReadonlyMap<string, string>): void {
  const undo: (() => void)[] = [];
  function makeFolder(folder: string): void {
    if (isFolder(folder)) return;
    makeFolder(dirname(folder));
    mkdirSync(folder);
    undo.push(() => rmdirSync(folder));
  }
  try {
    for (const [path, text] of files) {
      const file = join(root, path);
      makeFolder(dirname(file));
      const descriptor = openSync(file, "wx"); // fails if the file was created in the meantime
      undo.push(() => unlinkSync(file));
      try {
        writeFileSync(descriptor, text);
      } finally {
        closeSync(descriptor);
      }
    }
  } catch (error) {
    for (const takeBack of undo.toReversed()) takeBack();
    throw error;
  }
}

/** Converts a system error to a readable message. */
function toReadable(error: unknown, root: string): unknown {
  const { errno } = error as NodeJS.ErrnoException;
  if (errno === undefined) return error;
  return new UserError(`Cannot write to ${toVisible(root)}: ${getSystemErrorMessage(errno)}`, {
    hint: "no files were written; choose a writable folder",
    cause: error,
  });
}

function describe(root: string, template: Template, paths: readonly string[], kept: readonly string[]): string {
  const folder = relative(".", root);
  const steps = [
    ...(folder === "" ? [] : [`cd ${toPortableWord(toVisible(folder))}`]),
    ...(kept.length > 0
      ? [`npm install ${toPackages(isWeb(template)).join(" ")}`, isWeb(template) ? "npx vite" : "npx agentserve dev"]
      : ["npm install", isWeb(template) ? "npm run dev" : "npx agentserve dev"]),
  ];
  const chosen = templates[template];
  const [first, command] =
    "page" in chosen
      ? ["Then open the page:", chosen.page]
      : [
          "Then, in a second terminal, make a first call:",
          `npx agentserve call ${chosen.call.map(toPortableWord).join(" ")}`,
        ];
  const lines = [
    `${colors.green("agentserve")} init  ${colors.cyan(toVisible(root))}  ${colors.dim(`template ${template}`)}`,
    ...paths.map((path) => colors.dim(`  ${path}`)),
    ...kept.map((path) => colors.dim(`  ${path} already exists, not changed`)),
    "",
    "Next:",
    ...steps.map((step) => `  ${colors.cyan(step)}`),
    "",
    first,
    `  ${colors.cyan(command)}`,
  ];
  return `${lines.join("\n")}\n`;
}
