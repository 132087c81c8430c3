/** Colours of series: ten that colour-blind people can tell apart in both themes, with dashes as a second sign. */

export const SERIES_COLORS = 10;

export const seriesColor = (index: number): string => `var(--studio-series-${(index % SERIES_COLORS) + 1})`;

/** The second five are dashed: ten hues alone are too near to each other for colour-blind people. */
export const seriesDash = (index: number): number[] | undefined => (index % SERIES_COLORS < 5 ? undefined : [7, 4]);
