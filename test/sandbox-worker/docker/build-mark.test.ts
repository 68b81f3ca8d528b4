import { expect, test } from 'vitest';
import { createBuildAnswer } from '../../../services/sandbox-worker/docker/build-answer.ts';
import { marked } from '../../../services/sandbox-worker/docker/image-builder.ts';

test('every stage of a Dockerfile begins with the mark, and nothing that only looks like one', () => {
  const dockerfile = 'ARG BASE\nFROM $BASE AS one\nRUN echo \\\nFROM here\n  from debian:12\nCOPY x FROM\n';
  expect(marked(dockerfile, 'm').split('\n')).toEqual([
    ...['ARG BASE', 'FROM $BASE AS one', 'LABEL dev.assay.build=m', 'RUN echo \\', 'FROM here'],
    ...['  from debian:12', 'LABEL dev.assay.build=m', 'COPY x FROM', ''],
  ]);
});

test("the engine's answer is read however it is cut, and what is too long is refused", () => {
  const lines: string[] = [];
  const answer = createBuildAnswer((line) => lines.push(line));
  const said = [
    { stream: 'Step 1/2 : ' },
    { stream: 'RUN späße\n\rpart' },
    { stream: 'ial\n' },
    { aux: { ID: 'sha256:1' } },
  ];
  const bytes = Buffer.from(said.map((each) => `${JSON.stringify(each)}\r\n`).join(''));
  for (const byte of bytes) answer.take(Buffer.of(byte));
  expect(lines).toEqual(['Step 1/2 : RUN späße', 'partial']);
  expect([answer.image, answer.failure]).toEqual(['sha256:1', undefined]);
  answer.take(Buffer.from(`${JSON.stringify({ error: 'no' })}\n`));
  expect(answer.failure).toBe('no');
  expect(() => answer.take(Buffer.alloc(2 ** 21, 'x'))).toThrow('more than');
});
