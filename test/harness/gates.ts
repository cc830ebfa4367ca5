/** Steps that wait until a test lets them go on, so that nothing depends on time. */
export interface Gates {
  /** Called by a step: says that it has come this far, and waits. */
  pass(key: string): Promise<void>;
  /** Resolves when a step has come to the gate. */
  reached(key: string): Promise<void>;
  open(key: string): void;
}

export function createGates(): Gates {
  const gates = new Map<string, { reached: PromiseWithResolvers<void>; opened: PromiseWithResolvers<void> }>();
  const at = (key: string) => {
    const gate = gates.get(key) ?? { reached: Promise.withResolvers<void>(), opened: Promise.withResolvers<void>() };
    gates.set(key, gate);
    return gate;
  };
  return {
    pass(key) {
      const { reached, opened } = at(key);
      reached.resolve();
      return opened.promise;
    },
    reached: (key) => at(key).reached.promise,
    open: (key) => at(key).opened.resolve(),
  };
}
