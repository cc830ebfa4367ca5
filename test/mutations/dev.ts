import type { Mutation } from "./mutation.ts";

const suite = "test/dev/reload.test.ts";

/** Faults in hot reload: `src/dev`. */
export const dev: readonly Mutation[] = [
  {
    breaks: "A removed workflow is reported as added",
    file: "src/dev/change.ts",
    find: `return is ? "added" : "removed";`,
    replace: `return was ? "added" : "removed";`,
    suite,
  },
  {
    breaks: "A save of exactly three things says that there are more",
    file: "src/dev/change.ts",
    find: "changes.length > max ?",
    replace: "changes.length >= max ?",
    suite,
  },
  {
    breaks: "A load that never ends keeps the next save waiting",
    file: "src/dev/patience.ts",
    find: "if (isSlow) reject(new SupersededLoad());",
    replace: "if (isSlow && isHurried === false) reject(new SupersededLoad());",
    suite,
  },
  {
    breaks: "The config of an abandoned load keeps its resources open",
    file: "src/dev/patience.ts",
    find: "loading.then(({ config }) => dispose(config))",
    replace: "loading.then(({ config }) => config)",
    suite,
  },
  {
    breaks: "A save reloads twice if the watcher reports it late",
    file: "src/dev/reload.ts",
    find: "this.#isOurs(file) && toVersion(file) !== this.#loaded.get(file)",
    replace: "this.#isOurs(file)",
    suite: "test/dev/watch.test.ts",
    isBuilt: true,
  },
  {
    breaks: "A config that the server refuses keeps its resources open",
    file: "src/dev/reload.ts",
    find: "void dispose(next.config);",
    replace: "void next.config;",
    suite,
  },
  {
    breaks: "The page shows a problem that is fixed",
    file: "src/dev/reload.ts",
    find: "server.complain(undefined);",
    replace: "",
    suite,
  },
  {
    breaks: "An error that comes back after a fix is not printed",
    file: "src/dev/reload.ts",
    find: "      this.#problem = undefined;",
    replace: "",
    suite,
  },
  {
    breaks: "The note about a restart is repeated at every save",
    file: "src/dev/reload.ts",
    find: "if (keys.join() !== this.#reported && keys.length > 0)",
    replace: "if (keys.length > 0)",
    suite,
  },
  {
    breaks: "Code is shown on a page that other machines can reach",
    file: "src/dev/reload.ts",
    find: "server.complain(showsCode ? problem : { ...problem, frame: undefined });",
    replace: "server.complain(problem);",
    suite,
  },
  {
    breaks: "A file whose import failed is not loaded when it is created",
    file: "src/dev/reload.ts",
    find: "this.#missing = missingFiles(mistake).filter((file) => !existsSync(file));",
    replace: "this.#missing = missingFiles(mistake).filter((file) => existsSync(file));",
    suite,
  },
];
