import { Command, CommanderError, Option } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { exitCodes, fail } from "./fail.ts";
import { ignoreLostReaders, leave } from "./output.ts";
import { runInChild } from "./result.ts";
import { UsageError } from "./usage.ts";

/** Runs the command line. Each command is imported only when it runs, so that `--help` is fast. */
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

  const serving = (name: "dev" | "start", summary: string): Command =>
    program
      .command(name)
      .description(summary)
      .option("--config <file>", "the config to serve (default: agents.config.ts)")
      .option("--port <number>", "the port to listen on (default: $PORT, server.port, or 3141)")
      .option("--host <name>", "the address to listen on (default: $HOST, server.host, or 127.0.0.1)")
      .option(
        "--data <file>",
        "the data file (default: $AGENTSERVE_DATA, the path of the backend, or .agentserve/data.db)",
      )
      .option("--json", "log one JSON record per line, even in a terminal");

  serving("dev", "serve the project in this folder and reload it on save")
    .option("--https", "serve over HTTPS with a self-signed certificate")
    .option("--open", "open the landing page in a browser")
    .addHelpText("after", devExamples)
    .action(async (_, command) => {
      const { dev } = await import("./dev.ts");
      await dev(command.optsWithGlobals());
    });

  serving("start", "serve the project in this folder for production")
    .option("--strict", "refuse to start with risky defaults")
    .option("--no-recovery", "do not continue executions that were running when the last process ended")
    .option("--allow-weak-secret", "start even if the jwtAuth() secret is weak")
    .addHelpText("after", startExamples)
    .action(async (options) => {
      const { start } = await import("./start.ts");
      await start(options);
    });

  program
    .command("init")
    .description("create a new project")
    .argument("[dir]", "the folder to create it in (default: the current folder)")
    .addOption(new Option("--template <name>", "the template to use").choices(["starter", "minimal"]))
    .addHelpText("after", initExamples)
    .action(async (dir, options) => {
      const { init } = await import("./init.ts");
      await init(dir, options);
    });

  program
    .command("call")
    .description("run a workflow or call an agent on a running server")
    .argument("<kind>", "workflow or agent")
    .argument("<id>", "the id of the workflow or agent")
    .argument("[input]", "JSON for a workflow, text for an agent, or - to read stdin")
    .option("--url <url>", "the URL of the server (default: AGENTSERVE_URL, or http://127.0.0.1:3141)")
    .option("--token <jwt>", "the bearer token (default: AGENTSERVE_TOKEN)")
    .option("--conversation <id>", "the conversation to start or continue")
    .option("--execution <id>", "the id of the new execution; without an input, the execution to follow")
    .option("--resume <json>", "the resume data, if the workflow suspends (prompted for in a terminal)")
    .option("--json", "print every event as JSON, one per line")
    .addHelpText("after", callExamples)
    .action(async (kind, id, input, options) => {
      const { call } = await import("./call.ts");
      await call({ kind, id, input }, options);
    });

  program
    .command("token")
    .description("create a JWT for a user")
    .option("--sub <id>", "the id of the user")
    .option("--claim <key=value>", "an additional claim, JSON or text (repeatable)", (text, all: string[] = []) => [
      ...all,
      text,
    ])
    .option("--expires <duration>", 'the lifetime: 30m, 2h, 7d or "never"', "1h")
    .option("--audience <name>", "the audience (default: from the config)")
    .option("--issuer <name>", "the issuer (default: from the config)")
    .option("--secret <text>", "the signing secret (default: AGENTSERVE_JWT_SECRET, or from the config)")
    .option("--config <file>", "the config with the auth provider (default: agents.config.ts)")
    .addHelpText("after", tokenExamples)
    .action(async (options) => {
      if (await runInChild()) return;
      const { token } = await import("./token.ts");
      await token(options);
    });

  program
    .command("routes")
    .description("list every route and its access")
    .option("--config <file>", "the config to read (default: agents.config.ts)")
    .option("--json", "print JSON")
    .addHelpText("after", routesExamples)
    .action(async (options) => {
      if (options.json && (await runInChild())) return;
      const { routes } = await import("./routes.ts");
      await routes(options);
    });

  const runs = program
    .command("runs")
    .description("list, show and cancel executions in the data file of a stopped server")
    .addHelpText("after", runsExamples);
  const offline = (name: string, summary: string): Command =>
    runs
      .command(name)
      .description(summary)
      .option(
        "--data <file>",
        "the file that holds executions and conversations (default: $AGENTSERVE_DATA, or .agentserve/data.db)",
      );
  offline("list", "list the newest executions")
    .option("--status <status>", "running, suspended, completed or error (default: all)")
    .option("--limit <number>", "the most executions to list (default: 50)")
    .option("--json", "print JSON")
    .action(async (options) => {
      const { listRuns } = await import("./runs.ts");
      await listRuns(options);
    });
  offline("show <id>", "show an execution and its events")
    .option("--json", "print JSON")
    .action(async (id, options) => {
      const { showRun } = await import("./runs.ts");
      await showRun(id, options);
    });
  offline("cancel <id>", "cancel an execution, so that the next start does not continue it")
    .option("--reason <text>", "the reason to store")
    .action(async (id, options) => {
      const { cancelRun } = await import("./runs.ts");
      await cancelRun(id, options);
    });

  program
    .command("doctor")
    .description("check that this project can be served on this machine")
    .option("--config <file>", "the config to check (default: agents.config.ts)")
    .option(
      "--data <file>",
      "the data file (default: $AGENTSERVE_DATA, the path of the backend, or .agentserve/data.db)",
    )
    .option("--json", "print JSON")
    .addHelpText("after", doctorExamples)
    .action(async (options) => {
      if (options.json && (await runInChild())) return;
      const { doctor } = await import("./doctor.ts");
      await doctor(options);
    });

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

const examples = `
Examples:
  $ npx agentserve init my-app              create a project; no API key needed
  $ npx agentserve dev                      serve agents.config.ts, reload on save
  $ npx agentserve call agent assistant "What is the weather in Berlin?"
  $ npx agentserve token --sub ada          create a token for a user
  $ PORT=8080 npx agentserve start          serve the same project in production

Exit codes:
  0  success, or stopped by SIGINT or SIGTERM
  1  failure; the last lines show the error and a hint
  2  invalid command line
  3  call: the workflow is suspended and waits for an answer`;
const devExamples = `
Examples:
  $ npx agentserve dev
  $ npx agentserve dev --open --port 8080
  $ npx agentserve dev --config apps/support --https`;
const startExamples = `
Examples:
  $ npx agentserve start --strict
  $ PORT=8080 HOST=0.0.0.0 npx agentserve start --data /var/lib/my-app/data.db`;
const initExamples = `
Existing files are never overwritten.

Examples:
  $ npx agentserve init my-app
  $ npx agentserve init --template minimal`;
const callExamples = `
Examples:
  $ npx agentserve call agent assistant "What is the weather in Berlin?"
  $ npx agentserve call workflow approval '{"amount":500,"reason":"a chair"}'
  $ npx agentserve call workflow approval '{"amount":500,"reason":"a chair"}' --resume '{"approved":true}' --json
  $ npx agentserve call agent assistant - < question.txt`;
const routesExamples = `
Example:
  $ npx agentserve routes --json | jq '.[] | select(.access == "public").path'`;
const runsExamples = `
The server must be stopped. To start one without continuing any execution: agentserve start --no-recovery

Examples:
  $ npx agentserve runs list --status running
  $ npx agentserve runs cancel chair-1 --data /srv/my-app/data.db`;
const doctorExamples = `
Exits with code 1 if a check fails.

Examples:
  $ npx agentserve doctor
  $ npx agentserve doctor --json | jq .memory`;
const tokenExamples = `
Prints the token to stdout and its details to stderr.

Examples:
  $ npx agentserve token --sub ada
  $ npx agentserve token --sub ada --claim 'roles=["admin"]' --claim tier=gold --expires 7d
  $ curl -H "Authorization: Bearer $(npx agentserve token --sub ada)" http://127.0.0.1:3141/agents`;
