import { Command, CommanderError } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { addCommands } from "./commands.ts";
import { exitCodes, fail } from "./fail.ts";
import { examples } from "./help.ts";
import { ignoreLostReaders, leave } from "./output.ts";
import { UsageError } from "./usage.ts";

/** Runs the command line. */
export async function main(argv: string[]): Promise<void> {
  ignoreLostReaders();
  const program = new Command("agentserve")
    .description("Serve AI agents and workflows over HTTP from one agents.config.ts")
    .version(manifest.version)
    .option("--debug", "print stack traces")
    .exitOverride()
    // Errors of the command line are printed by `fail`, like all others.
    .configureOutput({ outputError: () => {} })
    .hook("preAction", (_, command) => void (running = command))
    .addHelpText("after", examples);
  let running: Command | undefined;

  addCommands(program);

  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) return misused(error, argv, program);
    // `dev` shows the code around an error. In production, the log gets a single line.
    const json = ["dev", "start"].includes(running?.name() ?? "") && running?.opts<{ json?: boolean }>().json;
    fail(error, { debug: program.opts<{ debug?: boolean }>().debug, frame: running?.name() === "dev", json });
    await leave();
  }
}

/**
 * Prints an error of commander in our format. Commander has two lines for it: `error: …` and `(Did you mean …?)`. Help
 * and version are not errors.
 */
function misused(error: CommanderError, argv: readonly string[], program: Command): void {
  if (error.exitCode === 0) return;
  if (error.code === "commander.help") {
    process.exitCode = exitCodes.usage; // `agentserve` without a command has printed its help
    return;
  }
  const [what = "", meant] = error.message.replace(/^error: /, "").split("\n");
  const names = new Set(program.commands.map((command) => command.name()));
  const name = argv.find((word) => names.has(word));
  const help = `run "agentserve ${name ? `${name} ` : ""}--help" for usage`;
  const hint = meant ? `${meant.replace(/^\(D(.*)\)$/, "d$1")} Or ${help}` : help;
  fail(new UsageError(what, { hint }));
}
