/** Lets steps wait until a test opens a gate, so that nothing depends on time. */
export interface Gates {
  /** Reports that a step has reached the gate, and waits until it is open. */
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
