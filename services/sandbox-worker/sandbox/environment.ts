import type { SandboxImage } from '../docker/engine.ts';

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The variables every execution of a session starts with. */
export function environmentOf(image: SandboxImage, session: Readonly<Record<string, string>>): Record<string, string> {
  const user = { HOME: image.home, USER: 'agent', LOGNAME: 'agent' };
  return { PATH: path, LANG: 'C.UTF-8', ...image.env, ...user, ...session };
}
