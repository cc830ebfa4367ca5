// The work of `engine/former` on Restate.
import { restate } from "../../src/backends/restate/define.ts";
import type { Config } from "../../src/index.ts";
import createWork from "../engine/former/work-app.ts";

interface Options {
  readonly folder: string;
  readonly backend: Parameters<typeof restate>[0];
}

export default function create({ folder, backend }: Options): { config: Config } {
  const { workflows = [], server = {} } = createWork({ folder }).config;
  return { config: { workflows, server, backend: restate(backend) } };
}
