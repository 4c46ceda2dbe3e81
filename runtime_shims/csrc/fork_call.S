/* __kmpc_fork_call(place, count, body, ...): the entry point by which programs of clang, flang and Intel's
 * compilers start a parallel region, with `count` pointers behind its three named arguments.
 *
 * C cannot pass on a variable number of arguments, so this part is written for each architecture:
 *
 *     void *real = kmpc_enter(&region, place, caller);
 *     if (region.lane == NULL)
 *         goto real;           as if we were not there: same stack, same return address
 *     real(place, count, body, ...);
 *     kmpc_leave(&region);
 *
 * `struct region` (teams.h) has 24 bytes and begins with `lane`; kmpc.c checks both. Where this is not
 * written for an architecture the shim is a tool of the runtime instead (ompt.c). */

#if defined(WATTFOLD_OMPT_ONLY)
/* nothing */

#elif defined(__x86_64__) && defined(__LP64__)

	.text
	.globl	__kmpc_fork_call
	.type	__kmpc_fork_call, @function
	.hidden	kmpc_fork_call
	.globl	kmpc_fork_call
	.type	kmpc_fork_call, @function
	.hidden	kmpc_enter
	.hidden	kmpc_leave
	.p2align 5
__kmpc_fork_call:
kmpc_fork_call:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$96, %rsp
	movq	%rdi, -8(%rbp)
	movq	%rsi, -16(%rbp)
	movq	%rdx, -24(%rbp)
	movq	%rcx, -32(%rbp)
	movq	%r8, -40(%rbp)
	movq	%r9, -48(%rbp)
	movq	%rax, -56(%rbp)		/* al: vector registers used by the caller */
	movq	%rdi, %rsi
	leaq	-88(%rbp), %rdi		/* the region */
	movq	8(%rbp), %rdx		/* where we were called */
	call	kmpc_enter
	movq	%rax, %r11
	movq	-8(%rbp), %rdi
	movq	-16(%rbp), %rsi
	movq	-24(%rbp), %rdx
	movq	-32(%rbp), %rcx
	movq	-40(%rbp), %r8
	movq	-48(%rbp), %r9
	cmpq	$0, -88(%rbp)
	je	.Lpass_on
	movslq	%esi, %rax
	subq	$3, %rax		/* three of them are in registers */
	jle	.Lcall
	leaq	1(%rax), %r10
	andq	$-2, %r10		/* the stack stays aligned to 16 bytes */
	shlq	$3, %r10
	subq	%r10, %rsp
.Lcopy:
	movq	8(%rbp,%rax,8), %r10
	movq	%r10, -8(%rsp,%rax,8)
	subq	$1, %rax
	jnz	.Lcopy
.Lcall:
	xorl	%eax, %eax
	call	*%r11
	leaq	-88(%rbp), %rdi
	call	kmpc_leave
	.cfi_remember_state
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_restore_state
.Lpass_on:
	movq	-56(%rbp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp	*%r11
	.cfi_endproc
	.size	__kmpc_fork_call, . - __kmpc_fork_call
	.size	kmpc_fork_call, . - kmpc_fork_call

#elif defined(__aarch64__) && defined(__LP64__)

	.text
	.globl	__kmpc_fork_call
	.type	__kmpc_fork_call, %function
	.hidden	kmpc_fork_call
	.globl	kmpc_fork_call
	.type	kmpc_fork_call, %function
	.hidden	kmpc_enter
	.hidden	kmpc_leave
	.p2align 5
__kmpc_fork_call:
kmpc_fork_call:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-112]!
	.cfi_def_cfa_offset 112
	.cfi_offset 29, -112
	.cfi_offset 30, -104
	mov	x29, sp
	.cfi_def_cfa_register 29
	stp	x0, x1, [x29, #16]
	stp	x2, x3, [x29, #32]
	stp	x4, x5, [x29, #48]
	stp	x6, x7, [x29, #64]
	mov	x1, x0
	add	x0, x29, #80		/* the region */
	mov	x2, x30			/* where we were called */
	bl	kmpc_enter
	mov	x16, x0
	ldp	x0, x1, [x29, #16]
	ldp	x2, x3, [x29, #32]
	ldp	x4, x5, [x29, #48]
	ldp	x6, x7, [x29, #64]
	ldr	x9, [x29, #80]
	cbz	x9, .Lpass_on
	sxtw	x9, w1
	subs	x9, x9, #5		/* five of them are in registers */
	b.le	.Lcall
	add	x10, x9, #1
	and	x10, x10, #-2		/* the stack stays aligned to 16 bytes */
	sub	sp, sp, x10, lsl #3
	add	x11, x29, #112
.Lcopy:
	sub	x9, x9, #1
	ldr	x10, [x11, x9, lsl #3]
	str	x10, [sp, x9, lsl #3]
	cbnz	x9, .Lcopy
.Lcall:
	blr	x16
	mov	sp, x29
	add	x0, x29, #80
	bl	kmpc_leave
	.cfi_remember_state
	ldp	x29, x30, [sp], #112
	.cfi_def_cfa 31, 0
	.cfi_restore 29
	.cfi_restore 30
	ret
	.cfi_restore_state
.Lpass_on:
	ldp	x29, x30, [sp], #112
	.cfi_def_cfa 31, 0
	.cfi_restore 29
	.cfi_restore 30
	br	x16
	.cfi_endproc
	.size	__kmpc_fork_call, . - __kmpc_fork_call
	.size	kmpc_fork_call, . - kmpc_fork_call

#endif

	.section .note.GNU-stack, "", %progbits
