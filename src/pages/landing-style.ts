/** The style of the landing page. The Content-Security-Policy of the page contains its hash. */
export const style: string = `
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --code: #f3f4f2; --line: #e2e3df; --text: #1c1f1e; --quiet: #5b625f;
  --accent: #0f766e; --on-accent: #ffffff; --soft: #e3f1ee; --bad: #b42318; --bad-soft: #fdf0ee; --bad-line: #f1c5bf;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121514; --card: #1a1e1d; --code: #131716; --line: #2c3331; --text: #e8ebea; --quiet: #9fa9a5;
    --accent: #5cc8bb; --on-accent: #0d1413; --soft: #17302c; --bad: #ff9a8f; --bad-soft: #2a1816; --bad-line: #5c2a25;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 72rem; padding: 2.5rem 1.5rem 5rem;
  background: var(--page); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1, h2, h3, p, pre, dl, dd, ol { margin: 0; }
h1, h2, h3 { line-height: 1.25; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.15rem; margin-bottom: 0.9rem; }
h3 { font-size: 1.05rem; }
small { font-weight: 400; font-size: 0.85rem; color: var(--quiet); letter-spacing: 0; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.8rem; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
header { display: flex; flex-wrap: wrap; gap: 0.9rem 2rem; align-items: center; justify-content: space-between; margin-bottom: 2.5rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.5rem; }
nav a { padding: 0.35rem 0.85rem; border: 1px solid var(--line); border-radius: 999px; background: var(--card); color: var(--text); text-decoration: none; font-size: 0.9rem; }
nav a:hover { border-color: var(--accent); color: var(--accent); }
nav a.first { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
nav a.first:hover { color: var(--on-accent); text-decoration: underline; }
section { margin-bottom: 2.75rem; }
article {
  display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 2fr); gap: 1.25rem 2rem;
  padding: 1.4rem 1.5rem; margin-bottom: 1rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  content-visibility: auto; contain-intrinsic-size: auto 14rem;
}
.id { margin-top: 0.15rem; display: flex; flex-wrap: wrap; gap: 0.3rem 0.6rem; align-items: center; color: var(--quiet); overflow-wrap: anywhere; }
.text { margin-top: 0.6rem; overflow-wrap: anywhere; white-space: pre-line; max-height: 12em; overflow-y: auto; }
.badge { padding: 0.05rem 0.6rem; border-radius: 999px; background: var(--soft); color: var(--accent); font-size: 0.8rem; font-weight: 600; }
dl { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0.45rem 1rem; margin-top: 0.9rem; font-size: 0.9rem; }
dt { color: var(--quiet); }
dd { overflow-wrap: anywhere; }
ol { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.3rem 0.6rem; }
ol li { max-width: 100%; overflow-wrap: anywhere; }
.steps li + li:not(.more)::before { content: "→"; color: var(--quiet); margin-right: 0.6rem; }
.more { color: var(--quiet); }
.calls { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.9rem; align-content: start; }
.calls pre { white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; width: fit-content; padding-right: 0.4rem; color: var(--quiet); font-size: 0.9rem; }
summary:hover { color: var(--accent); }
pre { padding: 0.85rem 1rem; background: var(--code); border: 1px solid var(--line); border-radius: 8px; overflow: auto; max-height: 24rem; line-height: 1.6; }
summary + pre { margin-top: 0.5rem; }
pre code { user-select: all; -webkit-user-select: all; }
.none { color: var(--quiet); }
.first-steps { padding: 1.75rem; background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.first-steps p { margin: 1.1rem 0 0.6rem; }
.first-steps h2 { margin: 0; }
.problem { padding: 1.4rem 1.5rem; background: var(--bad-soft); border: 1px solid var(--bad-line); border-left: 4px solid var(--bad); border-radius: 12px; }
.problem h2 { color: var(--bad); }
.problem .message { padding: 0; border: 0; background: none; font-size: 0.95rem; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 20rem; }
.problem .hint { margin-top: 0.6rem; overflow-wrap: anywhere; white-space: pre-line; }
.problem .frame { margin-top: 0.9rem; background: var(--card); }
.problem .since { margin-top: 0.9rem; color: var(--quiet); font-size: 0.9rem; }
@media (max-width: 46rem) {
  body { padding: 1.5rem 1rem 3rem; }
  header { margin-bottom: 1.75rem; }
  article { grid-template-columns: minmax(0, 1fr); padding: 1.1rem; }
}
`;
