import { z } from 'zod';
import { environmentVariables, line, list, number, object, relativePath, shaped, size, text, whole } from './field.ts';

const mebibyte = 2 ** 20;

/** What uid 1000 is called where an image has no name for it. */
export const defaultUser = 'agent';

/** Where the code runs. Without `image` and `dockerfile` it is the server's base image. */
export const environmentSchema = object({
  image: line(512, 'an image such as debian:12').optional(),
  /** A Dockerfile of the sample; the folder it lies in is its context. `FROM ${ASSAY_BASE}` is the server's base image. */
  dockerfile: relativePath('a Dockerfile of the sample').optional(),
  /** Shell text that runs once when the image is built, as the user, in the working directory, with the code in place. */
  setup: text(65_536, 'shell text').optional(),
  workdir: shaped(/^(\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}){1,8}$/, 'an absolute path such as /workspace').default(
    '/workspace',
  ),
  /** What uid 1000 is called, which sessions run as: the build finds out whether it is. */
  user: shaped(/^[a-z_][a-z0-9_-]{0,31}$/, "a user's name").default(defaultUser),
  env: environmentVariables().default({}),
  cpus: number(0.05, 64, 'a number of cores').optional(),
  memory: size(16 * mebibyte, 2 ** 40).optional(),
  disk: size(16 * mebibyte, 2 ** 44).optional(),
  pids: whole(8, 4_194_304, 'a number of processes').optional(),
  network: z.enum(['none', 'egress', 'full'], 'none, egress or full').default('none'),
  /** With `network: egress`, the hosts that may be reached. */
  egress_hosts: list(
    shaped(/^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,252})(:\d{1,5})?$/, 'a host such as pypi.org'),
    64,
    'hosts',
  ).default([]),
})
  .refine((given) => given.image === undefined || given.dockerfile === undefined, {
    message: 'one of image and dockerfile',
    path: ['dockerfile'],
  })
  .refine((given) => given.egress_hosts.length === 0 || given.network === 'egress', {
    message: 'no hosts unless network is egress',
    path: ['egress_hosts'],
  });
