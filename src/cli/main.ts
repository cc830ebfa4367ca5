import { Command, CommanderError, Option } from "commander";
import manifest from "../../package.json" with { type: "json" };
import { exitCodes, fail } from "./fail.ts";
import {
  callExamples,
  devExamples,
  doctorExamples,
  examples,
  initExamples,
  logsExamples,
  routesExamples,
  runsExamples,
  schedulesExamples,
  startExamples,
  tokenExamples,
  typesExamples,
} from "./help.ts";
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
    .option("--open", "open the console in a browser")
    .addHelpText("after", devExamples)
    .action(async (_, command) => {
      const { dev } = await import("./dev.ts");
      await dev(command.optsWithGlobals());
    });

  serving("start", "serve the project in this folder for production")
    .option("--strict", "refuse to start with risky defaults")
    .option("--no-recovery", "do not continue executions that were running when the last process ended")
    .addHelpText("after", startExamples)
    .action(async (options) => {
      const { start } = await import("./start.ts");
      await start(options);
    });

  program
    .command("init")
    .description("create a new project")
    .argument("[dir]", "the folder to create it in (default: the current folder)")
    .addOption(
      new Option("--template <name>", "the template to use").choices([
        "starter",
        "minimal",
        "pipeline",
        "webhook",
        "support-desk",
      ]),
    )
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

  program
    .command("types")
    .description("write agentserve-env.d.ts, so that runtime.start() knows the workflows by their ids")
    .option("--config <file>", "the config to read (default: agents.config.ts)")
    .option("--check", "write nothing, and fail if the file is out of date")
    .addHelpText("after", typesExamples)
    .action(async (options) => {
      const { types } = await import("./types.ts");
      await types(options);
    });

  const runs = program
    .command("runs")
    .description("list, show and repair executions of a running server, or of a data file")
    .addHelpText("after", runsExamples);
  const onRuns = (name: string, summary: string, isDefault = false): Command =>
    runs
      .command(name, { isDefault })
      .description(summary)
      .option("--url <url>", "the URL of the server (default: AGENTSERVE_URL, or http://127.0.0.1:3141)")
      .option("--token <jwt>", "the bearer token (default: AGENTSERVE_TOKEN)")
      .option("--data <file>", "the data file of a stopped server: list, show and cancel only")
      .option("--json", "print JSON");
  onRuns("list", "list the newest executions", true)
    .option("--status <status>", "running, suspended, completed or error, several with commas (default: all)")
    .option("--workflow <id>", "only executions of this workflow")
    .option("--kind <kind>", "only executions that wait for a person or request, or that the system suspended")
    .option("--user <id>", "only executions of this user")
    .option("--limit <number>", "max executions to list (default: 50)")
    .action(async (options) => {
      const { listRuns } = await import("./runs/runs.ts");
      await listRuns(options);
    });
  onRuns("show <id>", "show an execution and its steps, with times, values and errors")
    .option("--under <step>", "only the steps inside this loop, item or sub-workflow, such as each/3")
    .option("--status <status>", "only steps with this status, also inside loops: error, suspended, running …")
    .action(async (id, options) => {
      const { showRun } = await import("./runs/runs.ts");
      await showRun(id, options);
    });
  onRuns("retry <id>", "retry a failed execution: the steps that failed run again").action(async (id, options) => {
    const { retryRun } = await import("./runs/act.ts");
    await retryRun(id, options);
  });
  onRuns("resume <id> [data]", "resume a suspended execution with JSON, or - to read stdin")
    .option("--step <id>", "the step to continue, or an earlier one to go back to")
    .action(async (id, data, options) => {
      const { resumeRun } = await import("./runs/act.ts");
      await resumeRun(id, data, options);
    });
  onRuns("fork <id>", "start a new execution with the results of this one")
    .option("--from <step>", "the first step that runs (default: the one that failed or waits)")
    .option("--input <json>", "another input; the new execution begins with the first step")
    .action(async (id, options) => {
      const { forkRun } = await import("./runs/act.ts");
      await forkRun(id, options);
    });
  onRuns("cancel <id>", "cancel an execution; it cannot be resumed")
    .option("--reason <text>", "the reason to store")
    .action(async (id, options) => {
      const { cancelRun } = await import("./runs/act.ts");
      await cancelRun(id, options);
    });

  const schedules = program
    .command("schedules")
    .description("list, trigger, pause and resume schedules of a running server")
    .addHelpText("after", schedulesExamples);
  const onSchedules = (name: string, summary: string, isDefault = false): Command =>
    schedules
      .command(name, { isDefault })
      .description(summary)
      .option("--url <url>", "the URL of the server (default: AGENTSERVE_URL, or http://127.0.0.1:3141)")
      .option("--token <jwt>", "the bearer token (default: AGENTSERVE_TOKEN)")
      .option("--json", "print JSON");
  onSchedules("list", "list the schedules with their times", true).action(async (options) => {
    const { listSchedules } = await import("./schedules/schedules.ts");
    await listSchedules(options);
  });
  onSchedules("trigger <id>", "start an execution of a schedule now").action(async (id, options) => {
    const { triggerSchedule } = await import("./schedules/schedules.ts");
    await triggerSchedule(id, options);
  });
  onSchedules("pause <id>", "pause a schedule: it starts no executions until it is resumed").action(
    async (id, options) => {
      const { pauseSchedule } = await import("./schedules/schedules.ts");
      await pauseSchedule(id, options);
    },
  );
  onSchedules("resume <id>", "resume a paused schedule").action(async (id, options) => {
    const { resumeSchedule } = await import("./schedules/schedules.ts");
    await resumeSchedule(id, options);
  });

  program
    .command("logs")
    .description("print the newest log records of a running server")
    .option("-f, --follow", "keep printing new records; reconnects if the connection is lost")
    .option("--level <level>", "the lowest level: trace, debug, info, warn, error or fatal (default: all)")
    .option("--workflow <id>", "only records of this workflow")
    .option("--agent <id>", "only records of this agent")
    .option("--execution <id>", "only records of this execution")
    .option("--limit <number>", "max records to begin with, up to 1000 (default: 100)")
    .option("--url <url>", "the URL of the server (default: AGENTSERVE_URL, or http://127.0.0.1:3141)")
    .option("--token <jwt>", "the bearer token (default: AGENTSERVE_TOKEN)")
    .option("--json", "print one JSON record per line")
    .addHelpText("after", logsExamples)
    .action(async (options) => {
      const { logs } = await import("./logs.ts");
      await logs(options);
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
