import { expect, test } from 'vitest';
import { createAllowedImages, imagePattern } from '../../../services/sandbox-worker/sandbox/allowed-images.ts';

const list = ['debian:12', 'python', 'team/*', 'registry.example:5000/tools:1.*'];

test.each([
  ['debian:12', true],
  ['docker.io/library/debian:12', true],
  ['library/debian:12', true],
  ['debian', false],
  ['debian:12-slim', false],
  ['debian:12@sha256:0123', false],
  ['python', true],
  ['python:latest', true],
  ['python:3', false],
  ['team/one', true],
  ['team/one/two:3', true],
  ['other/team/one', false],
  ['registry.example:5000/tools:1.2', true],
  ['registry.example:5000/tools:12', false],
  ['registryxexample:5000/tools:1.2', false],
])('of a list of four, %s is allowed: %s', (reference, allowed) => {
  const check = () => createAllowedImages(list)(reference);
  if (allowed) expect(check).not.toThrow();
  else expect(check).toThrow(`image ${reference} is not among those`);
});

test('a star allows every image, and an empty list none', () => {
  expect(() => createAllowedImages(['*'])('any/thing@sha256:0123')).not.toThrow();
  expect(() => createAllowedImages([])('debian:12')).toThrow('ASSAY_IMAGES');
});

test('what is no image is no pattern', () => {
  expect(['debian:12', '*', 'team/*', '-x', 'a b', ''].map(imagePattern)).toEqual([
    'debian:12',
    '*',
    'team/*',
    undefined,
    undefined,
    undefined,
  ]);
});
