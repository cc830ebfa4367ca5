/** Texts that a page could take for markup, a script, a link, or another text. */
export function createHostileTexts(count: number): string[] {
  const scripts = ["alert(1)", "globalThis.hacked=1", "location='http://stranger.test/'"];
  const frames: ((script: string) => string)[] = [
    (script) => `<script>${script}</script>`,
    (script) => `<img src=x onerror="${script}">`,
    (script) => `"><svg onload=${script}>`,
    (script) => `javascript:${script}`,
    (script) => `</pre></td><iframe srcdoc="<script>${script}</script>">`,
    (script) => `\${${script}} {{${script}}} \`${script}\``,
    (script) => `<a href="javascript:${script}">click</a>`,
    (script) => `'-${script}-'`,
    (script) => `<style>*{display:none}</style>${script}`,
    (script) => `&lt;b&gt;&#x3C;script>${script}`,
    (script) => `\u202E${script}\u202C\u200B\uFEFF`,
    (script) => `\u001B]0;${script}\u0007\u0000\u009B31m`,
    (script) => `<math><mtext></form><form><mglyph><style></math><img src onerror=${script}>`,
    (script) => `[${script}](javascript:${script}) <!--${script}-->`,
    (script) => `__proto__ constructor ${script} ${"x".repeat(300)}`,
    (script) => `\uD800${script}\u{E0041}\u2028\u2029`,
  ];
  return Array.from({ length: count }, (_, n) => {
    const script = scripts[n % scripts.length]!;
    return `${frames[n % frames.length]!(script)} #${n}`;
  });
}
