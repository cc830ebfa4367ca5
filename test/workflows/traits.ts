/** The traits of each step type, as docs/reference.md lists them. */
export const traitsOf: Readonly<Record<string, object>> = {
  andThen: { shape: "leaf" },
  andAgent: { shape: "leaf" },
  andMap: { shape: "leaf" },
  andTap: { shape: "leaf", tolerates: true, passesOn: true },
  andWhen: { shape: "choice", passesOn: true },
  andBranch: { shape: "choice" },
  andAll: { shape: "all" },
  andRace: { shape: "race" },
  andForEach: { shape: "loop", items: "list" },
  andDoWhile: { shape: "loop", items: "iteration" },
  andDoUntil: { shape: "loop", items: "iteration" },
  andSleep: { shape: "wait", passesOn: true },
  andSleepUntil: { shape: "wait", passesOn: true },
  andWaitFor: { shape: "wait" },
  andWorkflow: { shape: "child" },
};
