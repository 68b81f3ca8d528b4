import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { runDirectory } from '../run.ts';

/** A certificate for 127.0.0.1 of an authority that nobody knows. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
  readonly authority: string;
  /** The authority's certificate in a file. */
  readonly authorityFile: string;
  remove(): void;
}

/** Made anew for every run: one that lay in the repository would end some day. */
export function makeCertificate(): Certificate {
  const directory = mkdtempSync(join(runDirectory(), 'certificate-'));
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' });
  const fresh = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  openssl(...fresh, '-keyout', 'authority.key', '-out', 'authority.pem', '-subj', '/CN=authority of a test');
  const signed = ['-CA', 'authority.pem', '-CAkey', 'authority.key', '-addext', 'subjectAltName=IP:127.0.0.1'];
  openssl(...fresh, ...signed, '-keyout', 'server.key', '-out', 'server.pem', '-subj', '/CN=server of a test');
  const read = (name: string) => readFileSync(join(directory, name), 'utf8');
  return {
    key: read('server.key'),
    cert: read('server.pem'),
    authority: read('authority.pem'),
    authorityFile: join(directory, 'authority.pem'),
    remove: () => rmSync(directory, { recursive: true }),
  };
}
