import { useEffect, useMemo } from "preact/hooks";
import { ask } from "../server/api.ts";
import { executionPath, isOpen, type ExecutionRef, type ExecutionState } from "../executions.ts";
import { useChanges, useLoaded } from "../server/load.ts";
import { Json } from "../parts/json.tsx";
import { Show } from "../parts/states.tsx";
import { place, toLink } from "../place.ts";
import { Again } from "./run/again.tsx";
import { EventLog } from "./run/event-log.ts";
import { Events } from "./run/events.tsx";
import { RunHead } from "./run/run-head.tsx";
import { RunLog } from "./run/run-log.tsx";
import { StepStore } from "./run/step-store.ts";
import { Steps } from "./run/steps.tsx";
import { Waits } from "./run/waits.tsx";

const tabs = [
  ["steps", "Steps"],
  ["events", "Events"],
  ["log", "Log"],
  ["state", "State"],
  ["again", "Again"],
] as const;

/** One run. */
export function Run({ workflowId, executionId }: ExecutionRef) {
  const of: ExecutionRef = { workflowId, executionId };
  const state = useLoaded((signal) => ask<ExecutionState>(`${executionPath(of)}/state?include=access`, { signal }), []);
  const store = useMemo(() => new StepStore(of), []);
  const reload = (): void => {
    state.reload();
    store.reload();
  };
  const log = useMemo(() => new EventLog(of, store.reload.bind(store)), []);
  const tab = place.value.query.get("tab") ?? "steps";
  const isFollowed = state.value?.status === "running" || (state.value !== undefined && tab === "events");
  useEffect(() => {
    if (isFollowed) log.start();
    else log.stop();
  }, [isFollowed, state.value?.status]);
  useChanges(reload, 250, (change) => change.executionId === executionId);
  useEffect(
    () => () => {
      log.stop();
      store.close();
    },
    [],
  );
  return (
    <Show of={state}>
      {(value) => (
        <>
          <RunHead state={value} onChanged={reload} />
          {isOpen(value) && <Waits state={value} store={store} onChanged={reload} />}
          <nav class="tabs" aria-label="Parts of the run">
            {tabs.map(([name, title]) => (
              <a
                key={name}
                href={toLink(["runs", workflowId, executionId], { tab: name })}
                aria-current={tab === name ? "page" : undefined}
              >
                {title}
              </a>
            ))}
          </nav>
          {tab === "steps" && <Steps state={value} store={store} onChanged={reload} />}
          {tab === "events" && <Events log={log} startAt={value.startAt} />}
          {tab === "log" && <RunLog state={value} />}
          {tab === "state" && <Values state={value} />}
          {tab === "again" && <Again state={value} />}
        </>
      )}
    </Show>
  );
}

function Values({ state: { input, result, context, status } }: { state: ExecutionState }) {
  return (
    <>
      <h2>Input</h2>
      <Json value={input} label="Input" depth={3} />
      {status === "completed" && (
        <>
          <h2>Result</h2>
          <Json value={result} label="Result" depth={3} />
        </>
      )}
      <h2>Context</h2>
      <Json value={context} label="Context" depth={3} />
    </>
  );
}
