/** The operator's own project: its admins make, list and revoke keys of every project. */
export const operatorProject = 'default';

export const projectShape = /^[a-z0-9-]{1,40}$/;
