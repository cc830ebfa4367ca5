/** The options of the console. */
export interface ConsoleOptions {
  /** True if the console only shows: it cannot start, answer, cancel or change anything. @default false */
  readOnly?: boolean;
}

/** The value of `console` in a config. */
export type ConsoleSetting = boolean | ConsoleOptions | undefined;

/** Returns true if the console is served. It is on in `dev` and off in `start` by default. */
export const isConsoleOn = (setting: ConsoleSetting, mode: "dev" | "start"): boolean =>
  setting === undefined ? mode === "dev" : setting !== false;

export const isReadOnly = (setting: ConsoleSetting): boolean =>
  typeof setting === "object" && setting.readOnly === true;
