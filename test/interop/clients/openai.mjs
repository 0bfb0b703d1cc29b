// Asks for a completion by OpenAI's SDK, in one of the ways below, and prints what came
// of it as a line of JSON. Where and with what token is in OPENAI_BASE_URL and
// OPENAI_API_KEY, as for any program that uses the SDK.
import OpenAI from 'openai';

const [way, maxTokens] = process.argv.slice(2);
const told = { sent: 0, chunks: 0, text: '', reason: '', tokens: 0 };
const client = new OpenAI({
  fetch: (url, init) => {
    told.sent++;
    return fetch(url, init);
  },
});
const body = {
  model: 'ghost-code',
  prompt: '// add café\nfunc add(a, b int) int {\n\t',
  suffix: '\n}\n',
  max_tokens: Number(maxTokens),
  temperature: 0,
};

function take(completion) {
  told.tokens += completion.usage?.completion_tokens ?? 0;
  for (const choice of completion.choices) {
    told.text += choice.text;
    told.reason += choice.finish_reason ?? '';
  }
}

async function stream(seen) {
  const chunks = await client.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of chunks) {
    told.chunks++;
    take(chunk);
    if (seen?.(chunks)) break;
  }
}

const ways = {
  unary: async () => take(await client.completions.create(body)),
  stream: () => stream(),
  // Leaving the loop aborts, as the SDK's documentation says; so does the controller.
  leave: () => stream(() => true),
  abort: () => stream((chunks) => chunks.controller.abort()),
  // Aborts once it is told to, on the standard input.
  'abort-unary': async () => {
    const controller = new AbortController();
    process.stdin.once('data', () => controller.abort());
    take(await client.completions.create(body, { signal: controller.signal }));
  },
};

try {
  await ways[way]();
} catch (error) {
  told.error = error.constructor.name;
  told.status = error.status;
  told.code = error.code;
  told.shouldRetry = error.headers?.get('x-should-retry') ?? '';
}
console.log(JSON.stringify(told));
process.stdin.destroy();
