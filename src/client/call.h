/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The boundary of the library: how public calls that can fail are defined. Inside, an attempt that fails leaves a
 * line (base/error.h), also when the next attempt succeeds. Only a call that fails as a whole shows its line to the
 * program: so a call that succeeds does not change afar_last_error().
 */
#ifndef CLIENT_CALL_H
#define CLIENT_CALL_H

/* The call fails, and the thread's last line says why: that is afar_last_error() from now on, unless the call was made
 * by another one of ours. */
__attribute__((cold)) void call_failed(void);

/* Around calls of the library by the library. */
void call_nest(void);
void call_unnest(void);

/*
 * Stands where a function's head would, with its type, name, parameters, and the names of these once more:
 *
 *	PUBLIC_CALL(int, afar_noun_verb, (struct afar_noun *noun, unsigned flags), (noun, flags))
 *	{
 *		…
 *	}
 */
#define PUBLIC_CALL(type, name, parameters, arguments) \
	static type name##_body parameters;            \
	type name parameters                           \
	{                                              \
		type ret_ = name##_body arguments;     \
                                                       \
		if (ret_ < 0)                          \
			call_failed();                 \
		return ret_;                           \
	}                                              \
	static type name##_body parameters

/* Defines a public call that makes public calls itself. */
#define PUBLIC_CALL_OF_CALLS(type, name, parameters, arguments) \
	static type name##_body parameters;                     \
	type name parameters                                    \
	{                                                       \
		type ret_;                                      \
                                                                \
		call_nest();                                    \
		ret_ = name##_body arguments;                   \
		call_unnest();                                  \
		if (ret_ < 0)                                   \
			call_failed();                          \
		return ret_;                                    \
	}                                                       \
	static type name##_body parameters

#endif
