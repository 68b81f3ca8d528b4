/** On an Attach to a worker: its reader was told Started already, so that the events go on in the middle. */
export const resumedHeader = 'assay-resumed';
