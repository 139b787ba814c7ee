// SPDX-License-Identifier: Apache-2.0

package route

// TableRoutes is for tests outside the package.
var TableRoutes = tableRoutes
