// Unpacks the browser and the libraries it was built with into the folder named by TMPDIR; prints where it is.
// The package adds its libraries only where it believes to be on the platform it was made for.
process.env.AWS_EXECUTION_ENV = "AWS_Lambda_nodejs22.x";
const { default: chromium } = await import("@sparticuz/chromium");
console.log(await chromium.executablePath());
